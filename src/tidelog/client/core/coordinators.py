"""Which broker keeps a group or a transaction: the request that asks, and what its answer means."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from tidelog.client.core.metadata import Node
from tidelog.client.errors import rejection
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

FIND_SEVERAL_VERSION: Final = 4

# What a broker answers that is not, or not yet, the coordinator.
COORDINATOR_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class CoordinatorKind(IntEnum):
    """What is coordinated."""

    GROUP = 0
    TRANSACTION = 1


def find_coordinator(kind: CoordinatorKind, key: str, version: int) -> FindCoordinatorRequest:
    if version < FIND_SEVERAL_VERSION:
        return FindCoordinatorRequest(key, key_type=kind)
    return FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])


def found_coordinator(answer: FindCoordinatorResponse) -> Node:
    """The broker; Rejected when there is none now."""
    found = answer.coordinators[0] if answer.coordinators else answer
    rejected = rejection(found.error_code, found.error_message or None)
    if rejected is not None:
        raise rejected
    return Node(NodeId(found.node_id), found.host, found.port)
