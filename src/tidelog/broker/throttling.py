"""Holds clients back that use more than their quota: they are told for how long, and not read from meanwhile (KIP-219).

Handlers are wrapped only while a quota is set, so that requests cost nothing more when none is. The answer leaves at
once; a client that does not pause by itself is paused by its connection.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

from tidelog.broker.call import Call
from tidelog.broker.dispatch import Dispatch, Handler
from tidelog.broker.mutation_quotas import hold_back
from tidelog.broker.quotas import ANONYMOUS, Limit, Quotas, Rate, Windows
from tidelog.broker.timers import Timers
from tidelog.metadata.delta import Delta
from tidelog.wire.compiler import Output
from tidelog.wire.frames import RequestHeader
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.schema import Request, Response

NO_REPLICA: Final = -1
NANOSECONDS_PER_PERCENT: Final = 1e7


class Throttling:
    """Follows the quotas of the cluster, and puts itself between dispatch and handlers where one is set."""

    def __init__(self, dispatch: Dispatch, windows: Windows, timers: Timers, now_ms: Callable[[], int]) -> None:
        self._dispatch = dispatch
        self._timers = timers
        self.now_ms = now_ms
        self.produced = Quotas("producer_byte_rate", windows, Rate)
        self.fetched = Quotas("consumer_byte_rate", windows, Rate)
        self.requested = Quotas("request_percentage", windows, Rate)

    def apply(self, delta: Delta) -> None:
        if not delta.quotas_changed:
            return
        for quotas in (self.produced, self.fetched, self.requested):
            quotas.apply(delta.after.quotas)
        self._dispatch.route_through(self._wrapped)

    def pause(self, call: Call, milliseconds: int) -> None:
        """Read nothing more from a client for a while."""
        hold_back(self._timers, call.connection, milliseconds)

    def limit(self, quotas: Quotas[Rate], call: Call) -> Limit[Rate] | None:
        return quotas.limit(ANONYMOUS, call.header.client_id or "")

    def _wrapped(self, request: type[Request], handler: Handler) -> Handler:
        if request is ProduceRequest and self.produced.active:
            handler = ThrottledProduce(handler, self)
        if request is FetchRequest and self.fetched.active:
            handler = ThrottledFetch(handler, self)
        if self.requested.active:
            handler = TimedHandler(handler, self)
        return handler


class HeldCall:
    """A call of a client that has to pause: its answer says so."""

    def __init__(self, call: Call, throttle_ms: int) -> None:
        self._call = call
        self._throttle_ms = throttle_ms
        self.connection = call.connection

    @property
    def header(self) -> RequestHeader:
        return self._call.header

    @property
    def output(self) -> Output | None:
        return self._call.output

    def answer(self, response: Any) -> None:
        response.throttle_time_ms = self._throttle_ms
        self._call.answer(response)

    def answer_nothing(self) -> None:
        self._call.answer_nothing()

    def abort(self, reason: str) -> None:
        self._call.abort(reason)


class ThrottledProduce:
    """What a client sends is charged when it arrives; nothing of it is refused."""

    def __init__(self, handler: Handler, throttling: Throttling) -> None:
        self._handler = handler
        self._throttling = throttling

    def __call__(self, call: Call, request: ProduceRequest) -> Response | None:
        throttling = self._throttling
        limit = throttling.limit(throttling.produced, call)
        if limit is None:
            return self._handler(call, request)
        size = sum(
            len(partition.records)
            for topic in request.topic_data
            for partition in topic.partition_data
            if partition.records is not None
        )
        throttle_ms = limit.charge(size, throttling.now_ms())
        if not throttle_ms:
            return self._handler(call, request)
        throttling.pause(call, throttle_ms)
        held: Any = HeldCall(call, throttle_ms)
        return self._handler(held, request)


class MeasuredCall(HeldCall):
    """A fetch is charged for what it answers."""

    def __init__(self, call: Call, throttling: Throttling, limit: Limit[Rate]) -> None:
        super().__init__(call, 0)
        self._throttling = throttling
        self._limit = limit

    def answer(self, response: FetchResponse) -> None:
        size = sum(
            len(partition.records)
            for topic in response.responses
            for partition in topic.partitions
            if partition.records is not None
        )
        self._throttle_ms = self._limit.charge(size, self._throttling.now_ms())
        if self._throttle_ms:
            self._throttling.pause(self._call, self._throttle_ms)
        super().answer(response)


class ThrottledFetch:
    """One answer holds no more than the quota allows in all its windows; followers are not clients."""

    def __init__(self, handler: Handler, throttling: Throttling) -> None:
        self._handler = handler
        self._throttling = throttling

    def __call__(self, call: Call, request: FetchRequest) -> None:
        throttling = self._throttling
        is_follower = max(request.replica_id, request.replica_state.replica_id) != NO_REPLICA
        limit = None if is_follower else throttling.limit(throttling.fetched, call)
        held: Any = call
        if limit is not None:
            allowed = int(limit.bound * throttling.fetched.windows.seconds_min)
            request.max_bytes = min(request.max_bytes, max(allowed, 1))
            held = MeasuredCall(call, throttling, limit)
        response = self._handler(held, request)
        if response is not None:
            held.answer(response)


class TimedHandler:
    """Charges the time that requests take; 100 per cent is this broker's whole core."""

    def __init__(self, handler: Handler, throttling: Throttling) -> None:
        self._handler = handler
        self._throttling = throttling

    def __call__(self, call: Call, request: Any) -> Response | None:
        throttling = self._throttling
        limit = throttling.limit(throttling.requested, call)
        if limit is None:
            return self._handler(call, request)
        began = perf_counter_ns()
        response = self._handler(call, request)
        throttle_ms = limit.charge((perf_counter_ns() - began) / NANOSECONDS_PER_PERCENT, throttling.now_ms())
        if throttle_ms:
            # As in Kafka no longer than one window, so that other requests of the client are not held up for long.
            throttling.pause(call, min(throttle_ms, throttling.requested.windows.size_ms))
        return response
