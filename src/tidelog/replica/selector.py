"""Which replica a consumer should read from (KIP-392): one in its own rack that has what it wants, else the leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.model.ids import NO_NODE, NodeId, Offset
from tidelog.replica.leader import PartitionLeader

# The last part of the class name that `replica.selector.class` names for it.
RACK_AWARE: Final = "RackAwareReplicaSelector"


class RackAwareSelector:
    def __init__(self, node_id: NodeId, rack_of: Callable[[NodeId], str | None]) -> None:
        """`rack_of` is None for a broker that is not there."""
        self._node_id = node_id
        self._rack_of = rack_of

    def __call__(self, leader: PartitionLeader, rack: str, offset: Offset) -> NodeId:
        """The follower to read from, or NO_NODE for the leader itself."""
        if self._rack_of(self._node_id) == rack:
            return NO_NODE
        in_sync = leader.in_sync
        near = [
            (follower.end_offset, follower.caught_up_ms, node)
            for node, follower in in_sync.followers.items()
            if node in in_sync.isr
            and follower.start_offset <= offset <= follower.end_offset
            and self._rack_of(node) == rack
        ]
        return max(near)[2] if near else NO_NODE
