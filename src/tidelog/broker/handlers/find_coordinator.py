"""FindCoordinator (key 10), v0-v6. v1: key types. v4: several keys (KIP-699). v6: share groups (KIP-932).

The coordinator of a group is the leader of the partition of `__consumer_offsets` that its id falls into, that of a
transactional id the leader of its partition of `__transaction_state`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from tidelog.broker.call import Call
from tidelog.broker.group_coordinator import OFFSETS_TOPIC
from tidelog.broker.transaction_coordinator import TRANSACTION_TOPIC
from tidelog.metadata.image import ClusterImage, Endpoint
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId, PartitionIndex
from tidelog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_VERSION_WITH_SEVERAL_KEYS: Final = 4
GROUP: Final = 0
TRANSACTION: Final = 1


class Coordinators(Protocol):
    """What is asked of the group coordinator and of the transaction coordinator alike."""

    def ensure_topic(self, done: Callable[[ErrorCode], None]) -> None: ...

    def partition_of(self, key: str, /) -> PartitionIndex | None: ...


class FindCoordinatorHandler:
    def __init__(self, image: Callable[[], ClusterImage], groups: Coordinators, transactions: Coordinators) -> None:
        self._image = image
        self._kinds = {GROUP: (OFFSETS_TOPIC, groups), TRANSACTION: (TRANSACTION_TOPIC, transactions)}

    def __call__(self, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse | None:
        kind = self._kinds.get(request.key_type)
        if kind is None:
            return self._answer(call, request, ErrorCode.INVALID_REQUEST)
        _, coordinators = kind
        coordinators.ensure_topic(lambda error: call.answer(self._answer(call, request, error)))
        return None

    def _answer(self, call: Call, request: FindCoordinatorRequest, error: ErrorCode) -> FindCoordinatorResponse:
        listener = call.connection.listener_name
        several = call.header.api_version >= FIRST_VERSION_WITH_SEVERAL_KEYS
        keys = request.coordinator_keys if several else [request.key]
        found = [self._find(request.key_type, key, listener, error) for key in keys]
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

    def _find(self, kind: int, key: str, listener: str, error: ErrorCode) -> Coordinator:
        try:
            if error is not ErrorCode.NONE:
                raise ProtocolError(error)
            node, endpoint = self._leader(kind, key, listener)
        except ProtocolError as refusal:
            return Coordinator(key, -1, "", -1, refusal.code, refusal.message)
        return Coordinator(key, node, endpoint.host, endpoint.port)

    def _leader(self, kind: int, key: str, listener: str) -> tuple[NodeId, Endpoint]:
        image = self._image()
        topic, coordinators = self._kinds[kind]
        index = coordinators.partition_of(key)
        partition = None if index is None else image.partition(topic, index)
        broker = None if partition is None else image.brokers.get(partition.leader)
        endpoint = None if broker is None else broker.endpoints.get(listener)
        if broker is None or endpoint is None:
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return broker.broker_id, endpoint
