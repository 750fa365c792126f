"""What the active controller does unasked: the first records of a new cluster, elections left open by its predecessor,
fencing of brokers that are silent or gone, preferred leaders from time to time.

A broker whose process died is noticed by its broken connection, long before its session is over: it is asked at its
listener, and fenced when its machine answers that nobody is there. A network that is cut says nothing, and then the
session decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.call import AnswersInOrder, Call
from tidelog.broker.commands import Commands
from tidelog.broker.logs import log
from tidelog.broker.peers import PeerFailed, Peers
from tidelog.controller.brokers import elect_leaderless, fence_gone, fence_silent, renew_sessions
from tidelog.controller.features import bootstrap
from tidelog.controller.leader_changes import Elected, ElectionType, elect_leaders
from tidelog.controller.state import Controller
from tidelog.env.network import Timer, Timers
from tidelog.machine.runtime import Result
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import BrokerRegistration, ClusterImage
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import NodeId
from tidelog.model.listeners import Address
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.schema import Message

PURPOSE: Final = "probe"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
CHECKS_PER_SESSION: Final = 10
CHECK_SECONDS_MAX: Final = 0.5
# A check that is later than this many times its interval says more about the controller than about brokers.
LATE_CHECKS_MAX: Final = 3
# A broker whose connection broke gets this long to come back before anybody asks for it.
GRACE_SECONDS: Final = 0.1
# How often its listener must have refused before it counts as gone, and how far apart.
REFUSALS_NEEDED: Final = 3
PROBE_SECONDS: Final = 0.1
PROBE_TIMEOUT_MS: Final = 1000


class ControllerDuties:
    def __init__(
        self,
        node_id: NodeId,
        commands: Commands,
        is_controller: Callable[[], bool],
        image: Callable[[], ClusterImage],
        peers: Peers,
        timers: Timers,
        now_ms: Callable[[], int],
        *,
        listener: str,
        session_ms: int,
        rebalance_seconds: int,
    ) -> None:
        """`listener` is where brokers are asked whether they are there; no `rebalance_seconds`: leaders stay."""
        self._node_id = node_id
        self._commands = commands
        self._is_controller = is_controller
        self._image = image
        self._peers = peers
        self._timers = timers
        self._now_ms = now_ms
        self._listener = listener
        self._check_seconds = min(session_ms / 1000 / CHECKS_PER_SESSION, CHECK_SECONDS_MAX)
        self._rebalance_seconds = rebalance_seconds
        self._check_timer: Timer | None = None
        self._check_due_ms = 0
        self._rebalance_timer: Timer | None = None
        self._take_over_timer: Timer | None = None
        # The connection by which each broker's last sign of life came.
        self._connections: dict[NodeId, AnswersInOrder] = {}
        self._brokers_by_connection: dict[AnswersInOrder, NodeId] = {}
        self._suspected: set[NodeId] = set()
        self._stopped = False

    def lead(self) -> None:
        """This node has begun to take commands."""
        self._take_over()
        self._connections.clear()
        self._brokers_by_connection.clear()
        self._check_soon()
        if self._rebalance_seconds and self._rebalance_timer is None:
            self._rebalance_timer = self._timers.call_later(self._rebalance_seconds, self._rebalance)
        for broker in self._image().unfenced_brokers():
            # Whoever died with the last controller, or because of it, is not waited for.
            self._suspect(broker.broker_id)

    def _take_over(self) -> None:
        """What a new cluster begins with, and what an earlier controller left undone."""
        if not self._is_controller() or self._stopped:
            return
        self._commands.submit(bootstrap, _complain)

        def elected(outcome: ProtocolError | None) -> None:
            _complain(outcome)
            if outcome is not None and self._take_over_timer is None:
                # Perhaps the disk was full: as long as this node is the controller nobody else will do it.
                self._take_over_timer = self._timers.call_later(self._check_seconds, again)

        def again() -> None:
            self._take_over_timer = None
            self._take_over()

        self._commands.submit(elect_leaderless, elected)

    def settings_changed(self, delta: Delta) -> None:
        """Where an unclean election has just been allowed, what nobody leads need not wait any longer."""
        if self._is_controller() and any(
            delta.after.config(resource).get(UNCLEAN_ELECTION) == "true" for resource in delta.configs_changed
        ):
            # Not now: whoever publishes metadata is not done.
            self._timers.call_soon(self._take_over)

    def stop(self) -> None:
        self._stopped = True
        for timer in (self._check_timer, self._rebalance_timer, self._take_over_timer):
            if timer is not None:
                timer.cancel()

    # --- silence ------------------------------------------------------------------------------------------------------

    def _check_soon(self) -> None:
        if self._check_timer is None and not self._stopped:
            self._check_due_ms = self._now_ms() + int(self._check_seconds * 1000)
            self._check_timer = self._timers.call_later(self._check_seconds, self._check_on_time)

    def _check_on_time(self) -> None:
        self._check_timer = None
        if self._now_ms() - self._check_due_ms > self._check_seconds * 1000 * LATE_CHECKS_MAX:
            # A controller that stood still itself cannot tell who was silent.
            log.warning("the controller stood still; all brokers get a new session")
            self._commands.submit(lambda controller: renew_sessions(controller, self._now_ms()), self._fenced)
        else:
            self._check()

    def _check(self) -> None:
        if self._is_controller() and not self._stopped:
            self._commands.submit(lambda controller: fence_silent(controller, self._now_ms()), self._fenced)

    def _fenced(self, outcome: NodeId | ProtocolError | None) -> None:
        if isinstance(outcome, ProtocolError) and not self._is_controller():
            return  # The next time it is, it begins anew.
        if outcome is None or isinstance(outcome, ProtocolError):
            # A controller that could not write goes on looking: it may have room the next time.
            self._check_soon()
            return
        log.warning("a broker was silent for too long and is fenced", broker=outcome)
        self._check()

    # --- broken connections -------------------------------------------------------------------------------------------

    def heard(self, broker: NodeId, call: Call) -> None:
        """A sign of life came by this connection."""
        connection = call.connection
        former = self._connections.get(broker)
        if former is not connection:
            if former is not None:
                self._brokers_by_connection.pop(former, None)
            self._connections[broker] = connection
            self._brokers_by_connection[connection] = broker

    def closed(self, connection: AnswersInOrder) -> None:
        """A connection to this controller broke; perhaps a broker's."""
        broker = self._brokers_by_connection.pop(connection, None)
        if broker is None or self._stopped:
            return
        del self._connections[broker]
        if self._is_controller():
            self._commands.submit(lambda controller: _disconnected(controller, broker), _complain)
            self._suspect(broker)

    def _suspect(self, broker: NodeId) -> None:
        if broker != self._node_id and broker not in self._suspected:
            self._suspected.add(broker)
            self._timers.call_later(GRACE_SECONDS, lambda: self._probe(broker, 0))

    def _probe(self, broker: NodeId, refusals: int) -> None:
        known = self._image().brokers.get(broker)
        if self._stopped or not self._is_controller() or known is None or known.fenced or broker in self._connections:
            self._suspected.discard(broker)
            return
        endpoint = known.endpoints.get(self._listener) or next(iter(known.endpoints.values()), None)
        if endpoint is None:
            self._suspected.discard(broker)
            return
        if refusals >= REFUSALS_NEEDED:
            self._suspected.discard(broker)
            self._fence(known)
            return
        address = Address(endpoint.host, endpoint.port)

        def answered(outcome: ApiVersionsResponse | PeerFailed) -> None:
            self._peers.forget(address, PURPOSE)
            if isinstance(outcome, PeerFailed) and outcome.refused:
                self._timers.call_later(PROBE_SECONDS, lambda: self._probe(broker, refusals + 1))
            else:
                # It answers, or nothing is known of it: its session decides.
                self._suspected.discard(broker)

        self._peers.to(address, PURPOSE).send(
            ApiVersionsRequest("tidelog", "probe"), answered, timeout_ms=PROBE_TIMEOUT_MS, version_max=3
        )

    def _fence(self, broker: BrokerRegistration) -> None:
        def fenced(outcome: bool | ProtocolError) -> None:
            if outcome is True:
                log.warning("a broker is gone and is fenced", broker=broker.broker_id)

        self._commands.submit(lambda controller: fence_gone(controller, broker.broker_id, broker.epoch), fenced)

    # --- preferred leaders --------------------------------------------------------------------------------------------

    def _rebalance(self) -> None:
        self._rebalance_timer = None
        if not self._is_controller() or self._stopped:
            return

        def elected(outcome: list[Elected] | ProtocolError) -> None:
            if self._is_controller() and self._rebalance_timer is None and not self._stopped:
                self._rebalance_timer = self._timers.call_later(self._rebalance_seconds, self._rebalance)

        self._commands.submit(lambda controller: elect_leaders(controller, ElectionType.PREFERRED, None), elected)


def _disconnected(controller: Controller, broker: NodeId) -> Result[Message, None]:
    controller.sessions.disconnected(broker)
    return Result([], None)


def _complain(outcome: object) -> None:
    if isinstance(outcome, ProtocolError):
        log.warning("a command of the controller was refused", reason=outcome.message)
