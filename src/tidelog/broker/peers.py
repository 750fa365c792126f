"""Requests of this node to others: correlation ids, versions both know, time-outs, reconnecting with back-off.

Used for the quorum's own requests, for followers that fetch, and for what is passed on to the controller. Requests are
pipelined and answered in their order; there is no task for any of them. What goes wrong is told as `PeerFailed`, never
raised, and never from inside `send`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from tidelog.broker.logs import log
from tidelog.env.network import Dialer, Stream, Timer, Timers
from tidelog.model.errors import ErrorCode
from tidelog.model.listeners import Address
from tidelog.model.version import __version__
from tidelog.wire.apis import API_NAMES
from tidelog.wire.frames import decode_response, encode_request
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.primitives import MalformedMessage
from tidelog.wire.schema import Request, Response, VersionRange

ResponseT = TypeVar("ResponseT")

CORRELATION_ID_MAX: Final = 2**31 - 1
# A fetch brings at most what its sender asked for and one batch more; this only stops nonsense.
ANSWER_BYTES_MAX: Final = 1024 * 1024 * 1024
CONNECT_SECONDS_MAX: Final = 3.0
BACKOFF_SECONDS_MIN: Final = 0.02
BACKOFF_SECONDS_MAX: Final = 0.5
REQUEST_TIMEOUT_MS: Final = 30_000
# More requests than this do not wait for one connection.
WAITING_MAX: Final = 10_000
API_VERSIONS_VERSION: Final = 3


class PeerFailed(NamedTuple):
    """No answer will come. Whether the request was carried out is not known, unless `sent` is false.

    `refused`: the other machine is there, and nobody serves at that address; a network that is cut says nothing.
    """

    reason: str
    sent: bool = True
    refused: bool = False


class _Asked(NamedTuple):
    request: Request
    version_max: int | None
    answer: Callable[[Any], None]
    deadline: float


class _InFlight(NamedTuple):
    correlation_id: int
    response: type[Response]
    version: int
    answer: Callable[[Any], None]
    deadline: float


class Peer:
    """One connection to one address, made when first needed and made again when it breaks."""

    def __init__(self, address: Address, purpose: str, client_id: str, dialer: Dialer, timers: Timers) -> None:
        self.address = address
        self.purpose = purpose
        self._client_id = client_id
        self._dialer = dialer
        self._timers = timers
        self._stream: Stream | None = None
        self._served: dict[int, VersionRange] | None = None
        self._waiting: deque[_Asked] = deque()
        self._in_flight: deque[_InFlight] = deque()
        self._next_correlation_id = 0
        self._failures = 0
        self._alarm: Timer | None = None
        self._alarm_at = float("inf")
        self._connect_timer: Timer | None = None
        self._closed = False

    @property
    def is_connected(self) -> bool:
        """Whether the other side has answered on this connection."""
        return self._served is not None

    def send(
        self,
        request: Request,
        answer: Callable[[ResponseT | PeerFailed], None],
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        version_max: int | None = None,
    ) -> None:
        """Send in the newest version both know, at most `version_max`; `answer` is called once, later."""
        if self._closed or len(self._waiting) >= WAITING_MAX:
            reason = "this node stops" if self._closed else f"{WAITING_MAX} requests wait for {self.address}"
            self._timers.call_soon(lambda: answer(PeerFailed(reason, sent=False)))
            return
        deadline = self._timers.time() + timeout_ms / 1000
        self._waiting.append(_Asked(request, version_max, answer, deadline))
        self._wake_at(deadline)
        if self._served is not None:
            self._send_waiting()
        elif self._stream is None and self._connect_timer is None:
            self._connect()

    def close(self) -> None:
        """Let go of the connection; who waits is told."""
        self._closed = True
        if self._connect_timer is not None:
            self._connect_timer.cancel()
        if self._alarm is not None:
            self._alarm.cancel()
        self._drop("this node stops")

    # Connecting

    def _connect(self) -> None:
        self._connect_timer = self._timers.call_later(CONNECT_SECONDS_MAX, self._connect_timed_out)
        self._stream = self._dialer.connect(self.address.host, self.address.port, self, ANSWER_BYTES_MAX)

    def _connect_timed_out(self) -> None:
        self._connect_timer = None
        self._broke(f"no connection within {CONNECT_SECONDS_MAX:.0f} s")

    def on_open(self) -> None:
        request = ApiVersionsRequest("tidelog", __version__)
        self._transmit(request, API_VERSIONS_VERSION, self._learn_versions, self._timers.time() + CONNECT_SECONDS_MAX)

    def _learn_versions(self, answer: ApiVersionsResponse | PeerFailed) -> None:
        if isinstance(answer, PeerFailed):
            return
        if self._connect_timer is not None:
            self._connect_timer.cancel()
            self._connect_timer = None
        if answer.error_code != ErrorCode.NONE:
            self._broke(f"versions are refused with error {answer.error_code}")
            return
        self._served = {api.api_key: VersionRange(api.min_version, api.max_version) for api in answer.api_keys}
        self._failures = 0
        self._send_waiting()

    def on_closed(self, reason: str, refused: bool) -> None:
        self._broke(reason, refused)

    def _broke(self, reason: str, refused: bool = False) -> None:
        """The connection is no use any more: all who wait are told, and the next attempt comes a little later."""
        if self._connect_timer is not None:
            self._connect_timer.cancel()
            self._connect_timer = None
        if self._failures == 0:
            log.debug("connection to a peer broke", peer=str(self.address), purpose=self.purpose, reason=reason)
        pause = min(BACKOFF_SECONDS_MIN * 2**self._failures, BACKOFF_SECONDS_MAX)
        self._failures = min(self._failures + 1, 16)
        self._connect_timer = self._timers.call_later(pause, self._backoff_over)
        self._drop(reason, refused)

    def _backoff_over(self) -> None:
        self._connect_timer = None
        if self._waiting and not self._closed:
            self._connect()

    def _drop(self, reason: str, refused: bool = False) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        self._served = None
        in_flight, self._in_flight = self._in_flight, deque()
        waiting, self._waiting = self._waiting, deque()
        for sent in in_flight:
            sent.answer(PeerFailed(reason))
        for asked in waiting:
            asked.answer(PeerFailed(reason, sent=False, refused=refused))

    # Asking and answering

    def _send_waiting(self) -> None:
        while self._waiting and self._served is not None:
            asked = self._waiting.popleft()
            version = self._version_of(asked)
            if version is None:
                name = API_NAMES[asked.request.API_KEY]
                failure = PeerFailed(f"{self.address} does not serve {name} in a version we speak", sent=False)
                self._timers.call_soon(lambda asked=asked, failure=failure: asked.answer(failure))  # type: ignore[misc]
                continue
            self._transmit(asked.request, version, asked.answer, asked.deadline)

    def _version_of(self, asked: _Asked) -> int | None:
        assert self._served is not None
        ours = VersionRange.parse(asked.request.VERSIONS)
        theirs = self._served.get(asked.request.API_KEY)
        if theirs is None:
            return None
        newest = min(ours.last, theirs.last, ours.last if asked.version_max is None else asked.version_max)
        return newest if newest >= max(ours.first, theirs.first) else None

    def _transmit(self, request: Request, version: int, answer: Callable[[Any], None], deadline: float) -> None:
        assert self._stream is not None
        correlation_id = self._next_correlation_id
        self._next_correlation_id = 0 if correlation_id == CORRELATION_ID_MAX else correlation_id + 1
        response = request.RESPONSE
        assert issubclass(response, Response), response
        frame = encode_request(request, version, correlation_id, self._client_id)
        self._in_flight.append(_InFlight(correlation_id, response, version, answer, deadline))
        self._stream.send(frame)

    def on_frame(self, frame: memoryview) -> None:
        if not self._in_flight:
            self._broke("the peer answers what was not asked")
            return
        asked = self._in_flight[0]
        try:
            correlation_id, response = decode_response(asked.response, asked.version, frame)
        except MalformedMessage as error:
            self._broke(f"malformed answer: {error}")
            return
        if correlation_id != asked.correlation_id:
            self._broke(f"the peer answers request {correlation_id}, not {asked.correlation_id}")
            return
        self._in_flight.popleft()
        asked.answer(response)

    # Time-outs: one timer for all; it may ring once too often

    def _wake_at(self, deadline: float) -> None:
        if deadline < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = deadline
            self._alarm = self._timers.call_later(max(deadline - self._timers.time(), 0.0), self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        self._alarm_at = float("inf")
        now = self._timers.time()
        if any(sent.deadline <= now for sent in self._in_flight):
            # Answers come in order: what is behind one that does not come, does not come either.
            self._broke("no answer in time")
            return
        late = [asked for asked in self._waiting if asked.deadline <= now]
        self._waiting = deque(asked for asked in self._waiting if asked.deadline > now)
        for asked in late:
            asked.answer(PeerFailed("no connection in time", sent=False))
        deadlines = [sent.deadline for sent in self._in_flight] + [asked.deadline for asked in self._waiting]
        if deadlines:
            self._wake_at(min(deadlines))


class Peers:
    """The connections of this node to others, one for each address and purpose.

    What may wait long at the other side (a fetch) has a purpose of its own: answers behind it would wait, too.
    """

    def __init__(self, client_id: str, dialer: Dialer, timers: Timers) -> None:
        self._client_id = client_id
        self._dialer = dialer
        self._timers = timers
        self._peers: dict[tuple[Address, str], Peer] = {}
        self._closed = False

    def to(self, address: Address, purpose: str) -> Peer:
        peer = self._peers.get((address, purpose))
        if peer is None:
            peer = Peer(address, purpose, self._client_id, self._dialer, self._timers)
            self._peers[address, purpose] = peer
            if self._closed:
                peer.close()
        return peer

    def forget(self, address: Address, purpose: str) -> None:
        """Close a connection that will not be used again."""
        peer = self._peers.pop((address, purpose), None)
        if peer is not None:
            peer.close()

    def close(self) -> None:
        """Who waits is told, and may ask for another connection at once: that one fails, too."""
        self._closed = True
        for peer in tuple(self._peers.values()):
            peer.close()
