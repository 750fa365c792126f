"""Replication at the edge of a broker: fetches what it follows from whoever leads it, and takes the ISR changes of what
it leads to the controller.

What to ask and what an answer means is decided in `replica/`; here it is sent. There is one connection to each leader,
for all partitions together, and no timer for any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from tidelog.broker.logs import log
from tidelog.broker.other_brokers import OtherBrokers
from tidelog.broker.peers import Peer, PeerFailed
from tidelog.env.network import Timer, Timers
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import ConfigResource, ResourceType
from tidelog.metadata.settings import ALL_BROKERS
from tidelog.model.broker_settings import BrokerConfig
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId
from tidelog.replica.fetcher import Asked, Cutting, Fetcher, FetcherSettings
from tidelog.replica.follower import PartitionFollower
from tidelog.replica.isr_proposals import IsrProposals
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import LedPartitions
from tidelog.replica.throttle import FOLLOWER_RATE, LEADER_RATE, Throttle, is_throttled
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.messages.fetch import FetchResponse

FETCH_PURPOSE: Final = "fetch"
ISR_PURPOSE: Final = "isr"
# A second request may overtake the wait of the first: it tells the leader of partitions that came up meanwhile.
IN_FLIGHT_MAX: Final = 2
# After a connection broke, or while a leader's address is not known.
RETRY_SECONDS_MIN: Final = 0.02
RETRY_SECONDS_MAX: Final = 0.5
PROPOSE_AGAIN_SECONDS: Final = 0.05
PROPOSAL_TIMEOUT_MS: Final = 5_000
# Followers that fall behind are looked for twice in the time that they have.
LOOKS_PER_LAG: Final = 2


class Controller(Protocol):
    """The way to the active controller."""

    def send(
        self,
        request: AlterPartitionRequest,
        answer: Callable[[AlterPartitionResponse | ProtocolError], None],
        *,
        timeout_ms: int,
        purpose: str,
    ) -> None: ...


def fetcher_settings(config: BrokerConfig) -> FetcherSettings:
    """What the broker's properties say about fetching as a follower."""
    return FetcherSettings(
        wait_ms_max=config.replica_fetch_wait_max_ms,
        bytes_min=config.replica_fetch_min_bytes,
        response_bytes_max=config.replica_fetch_response_max_bytes,
        partition_bytes_max=config.replica_fetch_max_bytes,
        backoff_ms_max=config.replica_fetch_backoff_ms,
    )


class Replication:
    def __init__(
        self,
        config: BrokerConfig,
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        partitions: LedPartitions,
        cutting: Cutting,
        others: OtherBrokers,
        controller: Controller,
        timers: Timers,
        now_ms: Callable[[], int],
    ) -> None:
        self._settings = fetcher_settings(config)
        self._timeout_ms = config.replica_socket_timeout_ms
        self._look_seconds = config.replica_lag_time_max_ms / 1000 / LOOKS_PER_LAG
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._partitions = partitions
        self._cutting = cutting
        self._others = others
        self._controller = controller
        self._timers = timers
        self._now_ms = now_ms
        self._links: dict[NodeId, Link] = {}
        self._link_of: dict[PartitionFollower, Link] = {}
        self._proposals = IsrProposals(node_id, broker_epoch, partitions.eligible_epoch, now_ms, self._propose_soon)
        self._this_broker = ConfigResource(ResourceType.BROKER, str(node_id))
        self.leader_throttle = Throttle(now_ms)
        self.follower_throttle = Throttle(now_ms)
        self._is_proposing_soon = False
        self._timer: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        self._partitions.replicate_with(self, self)
        self._look_later()

    def stop_all(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    # Following

    def follow(self, follower: PartitionFollower) -> None:
        self.stop(follower)
        source = follower.leader
        link = self._links.get(source)
        if link is None:

            def on_cut() -> None:
                self._links[source].wake()

            fetcher = Fetcher(self._node_id, self._broker_epoch, self._settings, self._cutting, _tell_refusal, on_cut)
            link = self._links[source] = Link(fetcher, lambda: self._peer_of(source), self._timers, self._now_ms)
            link.timeout_ms = self._timeout_ms
        self._throttle(follower)
        link.fetcher.add(follower)
        self._link_of[follower] = link
        link.wake()

    def stop(self, follower: PartitionFollower) -> None:
        link = self._link_of.pop(follower, None)
        if link is not None:
            link.fetcher.remove(follower)

    def synced(self, follower: PartitionFollower) -> None:
        link = self._link_of.get(follower)
        if link is not None:
            link.fetcher.resume(follower)
            link.wake()

    def _peer_of(self, node: NodeId) -> Peer | None:
        return None if self._stopped else self._others.peer(node, FETCH_PURPOSE)

    # Throttling what is moved

    def apply(self, delta: Delta) -> None:
        """Follow the rates and the lists of replicas that are throttled."""
        if not delta.configs_changed:
            return
        settings = {**delta.after.config(ALL_BROKERS), **delta.after.config(self._this_broker)}
        for name, throttle in ((LEADER_RATE, self.leader_throttle), (FOLLOWER_RATE, self.follower_throttle)):
            text = settings.get(name, "")
            throttle.bytes_per_second = int(text) if text.isdecimal() else None
        for follower in self._link_of:
            self._throttle(follower)

    def _throttle(self, follower: PartitionFollower) -> None:
        listed = follower.config.follower_replication_throttled_replicas
        follower.throttle = self.follower_throttle if is_throttled(listed, follower.index, self._node_id) else None

    # Leading

    def look_at(self, leader: PartitionLeader) -> None:
        self._proposals.look_at(leader)

    def _look_later(self) -> None:
        if not self._stopped:
            self._timer = self._timers.call_later(self._look_seconds, self._look)

    def _look(self) -> None:
        self._proposals.look_at_all(self._partitions)
        self._look_later()

    def _propose_soon(self) -> None:
        """All that comes up in this turn goes together."""
        if not self._is_proposing_soon and not self._stopped:
            self._is_proposing_soon = True
            self._timers.call_soon(self._propose)

    def _propose(self) -> None:
        self._is_proposing_soon = False
        request = self._proposals.request()
        if request is not None:
            self._controller.send(
                request, self._proposals_answered, timeout_ms=PROPOSAL_TIMEOUT_MS, purpose=ISR_PURPOSE
            )

    def _proposals_answered(self, response: AlterPartitionResponse | ProtocolError) -> None:
        if isinstance(response, ProtocolError):
            self._proposals.failed()
            is_done = False
        else:
            is_done = self._proposals.answered(response)
        if not is_done and not self._stopped:
            self._timers.call_later(PROPOSE_AGAIN_SECONDS, self._propose_soon)


class Link:
    """The fetches from one leader."""

    def __init__(
        self,
        fetcher: Fetcher,
        peer: Callable[[], Peer | None],
        timers: Timers,
        now_ms: Callable[[], int],
    ) -> None:
        self.fetcher = fetcher
        self.timeout_ms = 30_000
        self._peer = peer
        self._timers = timers
        self._now_ms = now_ms
        self._in_flight = 0
        self._failures = 0
        self._is_waking = False
        self._due_timer: Timer | None = None
        self._due_ms = 0
        # Set while the next attempt waits: nothing is sent before.
        self._pause: Timer | None = None

    def wake(self) -> None:
        """There may be something to ask; all that comes up in this turn goes together."""
        if not self._is_waking:
            self._is_waking = True
            self._timers.call_soon(self._woken)

    def _woken(self) -> None:
        self._is_waking = False
        self._send()

    def _send(self) -> None:
        fetcher, now_ms = self.fetcher, self._now_ms()
        if self._pause is not None or self._in_flight >= IN_FLIGHT_MAX:
            return
        if self._in_flight and not fetcher.has_news(now_ms):
            self._wake_when_due(now_ms)
            return
        peer = self._peer()
        if peer is None:
            if len(fetcher):
                self._pause_a_while()
            return
        asked = fetcher.request(now_ms)
        self._wake_when_due(now_ms)
        if asked is not None:
            self._in_flight += 1
            peer.send(asked.request, partial(self._answered, asked), timeout_ms=self.timeout_ms)

    def _answered(self, asked: Asked, answer: FetchResponse | PeerFailed) -> None:
        self._in_flight -= 1
        if isinstance(answer, PeerFailed):
            self.fetcher.failed(asked)
            self._pause_a_while()
            return
        self._failures = 0
        if self.fetcher.answered(asked, answer, self._now_ms()):
            self._send()
        else:
            self._pause_a_while()

    def _pause_a_while(self) -> None:
        if self._pause is None:
            seconds = min(RETRY_SECONDS_MIN * 2**self._failures, RETRY_SECONDS_MAX)
            self._failures = min(self._failures + 1, 16)
            self._pause = self._timers.call_later(seconds, self._pause_over)

    def _pause_over(self) -> None:
        self._pause = None
        self._send()

    def _wake_when_due(self, now_ms: int) -> None:
        """A partition that was refused may be asked for again before the leader has anything to say."""
        due_ms = self.fetcher.next_due_ms()
        if due_ms is None or (self._due_timer is not None and self._due_ms <= due_ms):
            return
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._due_ms = due_ms
        self._due_timer = self._timers.call_later(max(due_ms - now_ms, 0) / 1000, self._due)

    def _due(self) -> None:
        self._due_timer = None
        self._send()


def _tell_refusal(follower: PartitionFollower, code: ErrorCode, reason: str) -> None:
    log.warning(
        "a partition cannot be replicated now",
        partition=str(follower),
        leader=follower.leader,
        error=code.name,
        reason=reason,
    )
