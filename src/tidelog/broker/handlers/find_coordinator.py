"""FindCoordinator (key 10), v0-v6. v1: key types. v4: several keys (KIP-699). v6: share groups (KIP-932).

One broker is the coordinator of everything it serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.call import Call
from tidelog.metadata.image import ClusterImage
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId
from tidelog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_VERSION_WITH_SEVERAL_KEYS: Final = 4
GROUP: Final = 0
TRANSACTION: Final = 1


class FindCoordinatorHandler:
    def __init__(self, image: Callable[[], ClusterImage], node_id: NodeId) -> None:
        self._image = image
        self._node_id = node_id

    def __call__(self, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        listener = call.connection.listener_name
        several = call.header.api_version >= FIRST_VERSION_WITH_SEVERAL_KEYS
        keys = request.coordinator_keys if several else [request.key]
        found = [self._find(key, request.key_type, listener) for key in keys]
        if several:
            return FindCoordinatorResponse(coordinators=found)
        only = found[0]
        return FindCoordinatorResponse(
            error_code=only.error_code,
            error_message=only.error_message,
            node_id=only.node_id,
            host=only.host,
            port=only.port,
        )

    def _find(self, key: str, key_type: int, listener: str) -> Coordinator:
        try:
            if key_type not in (GROUP, TRANSACTION):
                raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Coordinators of type {key_type} are not served.")
            broker = self._image().brokers.get(self._node_id)
            endpoint = broker.endpoints.get(listener) if broker is not None else None
            if endpoint is None:
                raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except ProtocolError as error:
            return Coordinator(key, -1, "", -1, error.code, error.message)
        return Coordinator(key, self._node_id, endpoint.host, endpoint.port)
