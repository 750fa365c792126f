"""Requests of clients that only the controller can answer: carried out here when this node is the controller, passed on
in an Envelope when it is not (KIP-590), so that the controller sees them as the client wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from tidelog.broker.call import Call
from tidelog.broker.controller_channel import ControllerChannel, WhoLeads
from tidelog.broker.dispatch import Handler, Served
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.frames import LENGTH_BYTES, encode_request
from tidelog.wire.schema import Request, Response

if TYPE_CHECKING:
    from tidelog.wire.messages.envelope import EnvelopeResponse


class Forwarding:
    """Wraps handlers of the controller for a broker's own listener."""

    def __init__(self, store: WhoLeads, channel: ControllerChannel) -> None:
        self._store = store
        self._channel = channel

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
                call.answer_encoded(bytes(response.response_data or b""))

        self._channel.send(envelope, answered)


def _packed(host: str) -> bytes:
    try:
        return ip_address(host).packed
    except ValueError:
        return ip_address("127.0.0.1").packed
