"""From a frame to its handler: the table of what is served, the version check, and what happens when a handler
fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Final, Protocol

from tidelog.broker.call import Call, Calls
from tidelog.broker.connection import Connection, ReadsRuns
from tidelog.broker.logs import log
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import API_NAMES
from tidelog.wire.compiler import reader
from tidelog.wire.frames import parse_request_header
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.primitives import MalformedMessage
from tidelog.wire.schema import Message, Request, Response, VersionRange

API_VERSIONS: Final = 18
# Behind the length of a frame; the first of its two bytes is 0 for every API there is.
API_KEY_END: Final = 6
# Produce, OffsetCommit, Heartbeat, ConsumerGroupHeartbeat look at no log, so that what is pipelined of them shares the
# turn's write.
SEE_NO_WRITES: Final = frozenset({0, 8, 12, 68})


class Handler(Protocol):
    """Answers one API. Returns the response, or None when it keeps the call to answer later."""

    def __call__(self, call: Call, request: Any) -> Response | None: ...


@dataclass(frozen=True, slots=True)
class Served:
    """One API that this broker really serves."""

    request: type[Request]
    handler: Handler
    versions: VersionRange
    # What ApiVersions says, where that must differ from what is served.
    advertised: VersionRange

    @property
    def api_key(self) -> int:
        return self.request.API_KEY


def serve(
    request: type[Request], handler: Handler, versions: str | None = None, advertised: str | None = None
) -> Served:
    served = VersionRange.parse(versions or request.VERSIONS)
    return Served(request, handler, served, VersionRange.parse(advertised) if advertised else served)


@dataclass(slots=True)
class ApiStatistics:
    """Plain counters, read by the metrics endpoint."""

    name: str
    requests: int = 0
    request_bytes: int = 0
    handler_ns: int = 0
    failures: int = 0


class _Route:
    """What is known of one (api key, version) after its first use."""

    __slots__ = ("handler", "read", "repeats", "statistics")

    def __init__(
        self,
        read: Callable[[memoryview, int], tuple[Message, int]],
        handler: Handler,
        statistics: ApiStatistics,
        repeats: Repeats | None,
    ) -> None:
        self.read = read
        self.handler = handler
        self.statistics = statistics
        self.repeats = repeats


class Repeats(Protocol):
    """The short way of requests of one API whose form was seen before."""

    def learn(self, version: int, frame: memoryview, request: Any, known: ReadsRuns | None) -> ReadsRuns | None:
        """Remember the form of a request that went the usual way; gives what the connection reads the next ones with,
        which may be what it has already."""
        ...

    def stage(
        self, connection: Connection, reader: Any, view: memoryview, position: int, end: int
    ) -> tuple[Calls, int] | None:
        """Take requests at the front of view[position:end], and say where the next begins; None when it takes none."""
        ...


class Dispatch:
    def __init__(
        self, served: Iterable[Served], write_now: Callable[[], None], repeats: Mapping[type[Request], Repeats]
    ) -> None:
        self._all_repeats = {request.API_KEY: short_way for request, short_way in repeats.items()}
        # A handler that is wrapped must see every request.
        self._repeats = self._all_repeats
        self._served = {api.api_key: api for api in served}
        self._write_now = write_now
        self._routes: dict[tuple[int, int], _Route] = {}
        self._wrap: Callable[[type[Request], Handler], Handler] = lambda _, handler: handler
        self.statistics = {key: ApiStatistics(API_NAMES[key]) for key in self._served}

    @property
    def api_versions(self) -> list[ApiVersion]:
        return [ApiVersion(key, *api.advertised) for key, api in sorted(self._served.items())]

    def route_through(self, wrap: Callable[[type[Request], Handler], Handler]) -> None:
        """From now on requests go to what `wrap` makes of their handlers; it is asked once for each route."""
        self._wrap = wrap
        self._routes.clear()
        unwrapped = {key for key, api in self._served.items() if wrap(api.request, api.handler) is api.handler}
        self._repeats = {key: short_way for key, short_way in self._all_repeats.items() if key in unwrapped}

    def handle_frame(self, connection: Connection, frame: memoryview) -> Call | None:
        """Decode and handle one request. What the peer did wrong closes its connection and nothing else."""
        try:
            header = parse_request_header(frame)
        except MalformedMessage as error:
            connection.close(f"malformed request header: {error}")
            return None
        api_key = header.api_key
        route = self._routes.get((api_key, header.api_version))
        call = Call(connection, header)
        if route is None:
            route = self._find_route(call)
            if route is None:
                return None if connection.closed else call
        if connection.calls_waiting and api_key not in SEE_NO_WRITES:
            # A client that pipelines sees its own writes.
            self._write_now()
        statistics = route.statistics
        statistics.requests += 1
        statistics.request_bytes += len(frame)
        began = perf_counter_ns()
        try:
            request, _ = route.read(frame, header.body_position)
            response = route.handler(call, request)
            if response is not None:
                call.answer(response)
            elif route.repeats is not None:
                known = connection.run_reader
                connection.run_reader = route.repeats.learn(header.api_version, frame, request, known) or known
        except MalformedMessage as error:
            connection.close(f"malformed {statistics.name} request v{header.api_version}: {error}")
            return None
        except Exception:
            self._failed(connection, statistics)
            return None
        statistics.handler_ns += perf_counter_ns() - began
        return call

    def handle_run(
        self, connection: Connection, reader: ReadsRuns, view: memoryview, position: int, end: int
    ) -> tuple[Call, int] | None:
        """Handle as many requests at the front of view[position:end] as can go the short way, and say where they end.

        None when none can, or the connection was closed.
        """
        api_key = reader.api_key
        if end - position < API_KEY_END or view[position + API_KEY_END - 1] != api_key:
            return None
        repeats = self._repeats.get(api_key)
        if repeats is None:
            connection.run_reader = None
            return None
        statistics = self.statistics[api_key]
        began = perf_counter_ns()
        try:
            taken = repeats.stage(connection, reader, view, position, end)
        except Exception:
            self._failed(connection, statistics)
            return None
        if taken is not None:
            calls, following = taken
            statistics.requests += calls.count
            statistics.request_bytes += following - position
            statistics.handler_ns += perf_counter_ns() - began
        return taken

    def _failed(self, connection: Connection, statistics: ApiStatistics) -> None:
        """Ours to mend. The client is told by a closed connection, which it survives; the process goes on."""
        statistics.failures += 1
        log.exception("handler failed", api=statistics.name)
        connection.close(f"{statistics.name} handler failed")

    def handle_inner(self, call: Call, frame: memoryview) -> bool:
        """Handle a request that came inside of another one; False when it is not served. Raises MalformedMessage."""
        header = call.header
        api = self._served.get(header.api_key)
        if api is None or header.api_version not in api.versions:
            return False
        request, _ = reader(api.request, header.api_version)(frame, header.body_position)
        response = api.handler(call, request)
        if response is not None:
            call.answer(response)
        return True

    @property
    def handlers(self) -> dict[type[Request], Handler]:
        """Who answers what."""
        return {api.request: api.handler for api in self._served.values()}

    def _find_route(self, call: Call) -> _Route | None:
        header = call.header
        api = self._served.get(header.api_key)
        if api is not None and header.api_version in api.versions:
            handler = self._wrap(api.request, api.handler)
            read, statistics = reader(api.request, header.api_version), self.statistics[header.api_key]
            route = _Route(read, handler, statistics, self._repeats.get(header.api_key))
            self._routes[header.api_key, header.api_version] = route
            return route
        if header.api_key == API_VERSIONS:
            # The one request a client may send before it knows our versions: tell it, in the oldest form (KIP-511).
            call.header = header.__class__(header.api_key, 0, header.correlation_id, header.client_id, 0)
            call.answer(ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, self.api_versions))
            return None
        call.connection.close(f"api key {header.api_key} version {header.api_version} is not served")
        return None
