"""Requests of clients that only the controller can answer: carried out here when this node is the controller, passed on
in an Envelope when it is not (KIP-590), so that the controller sees them as the client wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.call import Call
from tidelog.broker.controller_channel import ControllerChannel, WhoLeads
from tidelog.broker.dispatch import Handler, Served
from tidelog.broker.mutation_quotas import hold_back
from tidelog.broker.timers import Timers
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.apis import response_class
from tidelog.wire.frames import LENGTH_BYTES, decode_response, encode_request
from tidelog.wire.schema import Request, Response

if TYPE_CHECKING:
    from tidelog.wire.messages.envelope import EnvelopeResponse

# CreateTopics, DeleteTopics, CreatePartitions: their clients may be told to pause (KIP-599).
BOUND_BY_THE_CONTROLLER: Final = frozenset({19, 20, 37})


class Forwarding:
    """Wraps handlers of the controller for a broker's own listener."""

    def __init__(self, store: WhoLeads, channel: ControllerChannel, timers: Timers) -> None:
        self._store = store
        self._channel = channel
        self._timers = timers

    def wrap(self, handler: Handler) -> Handler:
        def handle(call: Call, request: Any) -> Response | None:
            if self._store.is_controller:
                return handler(call, request)
            self._forward(call, request)
            return None

        return handle

    def wrap_all(self, served: Iterable[Served]) -> list[Served]:
        return [replace(api, handler=self.wrap(api.handler)) for api in served]

    def _forward(self, call: Call, request: Request) -> None:
        # Loaded with the first request that leaves: a node that is alone passes nothing on.
        from tidelog.wire.messages.envelope import EnvelopeRequest

        header = call.header
        frame = encode_request(request, header.api_version, header.correlation_id, header.client_id)
        envelope = EnvelopeRequest(
            request_data=frame[LENGTH_BYTES:],
            request_principal=None,
            client_host_address=_packed(call.connection.peer_host),
        )

        def answered(response: EnvelopeResponse | ProtocolError) -> None:
            if isinstance(response, ProtocolError) or response.error_code != ErrorCode.NONE:
                # There is no answer that every request knows for this; a closed connection makes the client ask again.
                call.abort("the controller did not answer a request that was passed on")
            else:
                answer = bytes(response.response_data or b"")
                if header.api_key in BOUND_BY_THE_CONTROLLER:
                    self._hold_back(call, answer)
                call.answer_encoded(answer)

        self._channel.send(envelope, answered)

    def _hold_back(self, call: Call, answer: bytes) -> None:
        """The controller can tell a client to pause, only we can see to it."""
        header = call.header
        _, response = decode_response(response_class(header.api_key), header.api_version, memoryview(answer))
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms:
            hold_back(self._timers, call.connection, throttle_ms)


def _packed(host: str) -> bytes:
    try:
        return ip_address(host).packed
    except ValueError:
        return ip_address("127.0.0.1").packed
