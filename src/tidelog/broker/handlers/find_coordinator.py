"""FindCoordinator (key 10), v0-v6. v1: key types. v4: several keys (KIP-699). v6: share groups (KIP-932).

The coordinator of a group is the leader of the partition of `__consumer_offsets` that its id falls into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from tidelog.metadata.image import ClusterImage, Endpoint
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
    def __init__(self, image: Callable[[], ClusterImage], groups: GroupCoordinator) -> None:
        self._image = image
        self._groups = groups

    def __call__(self, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse | None:
        if request.key_type == GROUP:
            self._groups.ensure_topic(lambda error: call.answer(self._answer(call, request, error)))
            return None
        # A transactional client asks only when it has a transactional id, which InitProducerId refuses.
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if request.key_type == TRANSACTION else ErrorCode.INVALID_REQUEST
        return self._answer(call, request, error)

    def _answer(self, call: Call, request: FindCoordinatorRequest, error: ErrorCode) -> FindCoordinatorResponse:
        listener = call.connection.listener_name
        several = call.header.api_version >= FIRST_VERSION_WITH_SEVERAL_KEYS
        keys = request.coordinator_keys if several else [request.key]
        found = [self._find(key, listener, error) for key in keys]
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

    def _find(self, key: str, listener: str, error: ErrorCode) -> Coordinator:
        try:
            if error is not ErrorCode.NONE:
                raise ProtocolError(error)
            node, endpoint = self._leader(key, listener)
        except ProtocolError as refusal:
            return Coordinator(key, -1, "", -1, refusal.code, refusal.message)
        return Coordinator(key, node, endpoint.host, endpoint.port)

    def _leader(self, group_id: str, listener: str) -> tuple[NodeId, Endpoint]:
        image = self._image()
        index = self._groups.partition_of(group_id)
        partition = None if index is None else image.partition(OFFSETS_TOPIC, index)
        broker = None if partition is None else image.brokers.get(partition.leader)
        endpoint = None if broker is None else broker.endpoints.get(listener)
        if broker is None or endpoint is None:
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return broker.broker_id, endpoint
