"""Envelope (key 58), v0: a client's request that a broker passes on to the controller, as it stands (KIP-590)."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from tidelog.broker.call import Call
from tidelog.broker.controller_channel import WhoLeads
from tidelog.model.errors import ErrorCode
from tidelog.wire.frames import LENGTH_BYTES, parse_request_header
from tidelog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.wire.primitives import MalformedMessage


class EnvelopeHandler:
    def __init__(self, store: WhoLeads, handle: Callable[[Call, memoryview], bool]) -> None:
        """`handle` routes a call by its header, given the whole request; False when nobody serves it."""
        self._store = store
        self._handle = handle

    def __call__(self, call: Call, request: EnvelopeRequest) -> EnvelopeResponse | None:
        if not self._store.is_controller:
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        # The request outlives this turn's memory: the controller answers when it is committed.
        frame = memoryview(bytes(request.request_data))
        try:
            header = parse_request_header(frame)
            inner = Call(_Enclosed(call, _host(request.client_host_address)), header)
            if self._handle(inner, frame):
                return None
        except MalformedMessage:
            pass
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)


def _host(packed: bytes | memoryview) -> str:
    try:
        return str(ip_address(bytes(packed)))
    except ValueError:
        return ""


class _Enclosed:
    """The connection of the client, as far as it is known here: its answer goes into the answer of the envelope."""

    __slots__ = ("_outer", "peer_host")
    listener_name = ""

    def __init__(self, outer: Call, peer_host: str) -> None:
        self._outer = outer
        self.peer_host = peer_host

    def answered(self, call: Call) -> None:
        assert call.output is not None and not call.output.splices
        self._outer.answer(EnvelopeResponse(response_data=bytes(memoryview(call.output)[LENGTH_BYTES:])))

    def mute(self) -> None: ...

    def unmute(self) -> None: ...

    def close(self, reason: str) -> None:
        self._outer.answer(EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
