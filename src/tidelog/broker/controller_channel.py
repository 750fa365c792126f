"""The way of this node's own requests to the active controller, wherever it is: here, or behind a connection.

Used by the broker's life cycle, by leaders that change their ISR, for producer ids, and to pass on what clients ask. A
request goes on looking for the controller until its time is over; who it is, is learned from the quorum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from tidelog.broker.call import Call
from tidelog.broker.dispatch import Handler
from tidelog.broker.peers import PeerFailed, Peers
from tidelog.env.network import Timers
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId
from tidelog.model.listeners import Address
from tidelog.wire.frames import RequestHeader
from tidelog.wire.schema import Request, Response, VersionRange

ResponseT = TypeVar("ResponseT")

PURPOSE: Final = "controller"
TIMEOUT_MS: Final = 30_000
# While nobody is known to lead, or the one that did says that it does no more.
RETRY_SECONDS: Final = 0.02


class WhoLeads(Protocol):
    """What the channel asks the metadata store."""

    @property
    def controller_id(self) -> NodeId: ...

    @property
    def is_controller(self) -> bool: ...


class ControllerChannel:
    def __init__(
        self,
        node_id: NodeId,
        store: WhoLeads,
        address_of: Callable[[NodeId], Address | None],
        peers: Peers,
        timers: Timers,
    ) -> None:
        self._node_id = node_id
        self._store = store
        self._address_of = address_of
        self._peers = peers
        self._timers = timers
        # The controller's handlers, when this node may be the controller.
        self._handlers: dict[type[Request], Handler] = {}
        # Connections to the controller that was asked last, by purpose.
        self._used: dict[str, Address] = {}
        self._closed = False

    def leader_is_known(self) -> None:
        """Somebody leads the quorum. What waits for an earlier leader, which may be silent for long, asks this one."""
        leader = self._store.controller_id
        address = None if leader == self._node_id else self._address_of(leader)
        for purpose, used in tuple(self._used.items()):
            if used != address:
                del self._used[purpose]
                self._peers.forget(used, purpose)

    def serve_here(self, handlers: dict[type[Request], Handler]) -> None:
        """Use these while this node is the controller."""
        self._handlers = handlers

    def close(self) -> None:
        self._closed = True

    def send(
        self,
        request: Request,
        answer: Callable[[ResponseT | ProtocolError], None],
        *,
        timeout_ms: int = TIMEOUT_MS,
        purpose: str = PURPOSE,
    ) -> None:
        """Have the controller answer; REQUEST_TIMED_OUT when none did in time. `answer` may be called at once."""
        _Errand(self, request, answer, self._timers.time() + timeout_ms / 1000, purpose).go()

    # For errands

    def attempt(self, errand: _Errand) -> None:
        remaining_ms = int((errand.deadline - self._timers.time()) * 1000)
        if self._closed or remaining_ms <= 0:
            errand.answer(_too_late())
            return
        leader = self._store.controller_id
        if leader == self._node_id:
            if self._store.is_controller:
                self._answer_here(errand, remaining_ms)
            else:
                # Elected, and not yet sure of all that was written before.
                self._timers.call_later(RETRY_SECONDS, errand.go)
            return
        address = self._address_of(leader) if leader >= 0 else None
        if address is None:
            self._timers.call_later(RETRY_SECONDS, errand.go)
            return
        self._used[errand.purpose] = address
        self._peers.to(address, errand.purpose).send(errand.request, errand.answered, timeout_ms=remaining_ms)

    def again(self, errand: _Errand) -> None:
        self._timers.call_later(RETRY_SECONDS, errand.go)

    def _answer_here(self, errand: _Errand, remaining_ms: int) -> None:
        request = errand.request
        handler = self._handlers.get(type(request))
        assert handler is not None, f"{type(request).__name__} is not the controller's"
        hearing = _Hearing(errand, self._timers, remaining_ms)
        response = handler(LocalCall(self._node_id, type(request), hearing.heard), request)
        if response is not None:
            hearing.heard(response)


def _too_late() -> ProtocolError:
    return ProtocolError(ErrorCode.REQUEST_TIMED_OUT, "No controller answered in time.")


class _Errand:
    """One request on its way."""

    __slots__ = ("_channel", "answer", "deadline", "purpose", "request")

    def __init__(
        self,
        channel: ControllerChannel,
        request: Request,
        answer: Callable[[Any], None],
        deadline: float,
        purpose: str,
    ) -> None:
        self._channel = channel
        self.request = request
        self.answer = answer
        self.deadline = deadline
        self.purpose = purpose

    def go(self) -> None:
        self._channel.attempt(self)

    def answered(self, outcome: Response | PeerFailed) -> None:
        if isinstance(outcome, PeerFailed) or getattr(outcome, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
            self._channel.again(self)
        else:
            self.answer(outcome)


class _Hearing:
    """An errand before the controller of this very node, which may take longer to commit than the errand has time."""

    __slots__ = ("_errand", "_timer")

    def __init__(self, errand: _Errand, timers: Timers, remaining_ms: int) -> None:
        self._errand: _Errand | None = errand
        self._timer = timers.call_later(remaining_ms / 1000, self._over)

    def heard(self, response: Response) -> None:
        self._timer.cancel()
        errand, self._errand = self._errand, None
        if errand is not None:
            errand.answered(response)

    def _over(self) -> None:
        errand, self._errand = self._errand, None
        if errand is not None:
            errand.answer(_too_late())


class _Inside:
    """Stands for the connection of a request that never left this process."""

    peer_host = "127.0.0.1"
    listener_name = ""

    def answered(self, call: Call) -> None: ...

    def mute(self) -> None: ...

    def unmute(self) -> None: ...

    def close(self, reason: str) -> None: ...


class LocalCall(Call):
    """A request of this node to itself: the answer is handed over as it is, without bytes."""

    __slots__ = ("_tell",)

    def __init__(self, node_id: NodeId, request: type[Request], tell: Callable[[Any], None]) -> None:
        version = VersionRange.parse(request.VERSIONS).last
        super().__init__(_Inside(), RequestHeader(request.API_KEY, version, 0, f"node-{node_id}", 0))
        self._tell = tell

    def answer(self, response: Response) -> None:
        self._tell(response)
