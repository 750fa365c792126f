"""The quorum as its leader sees it, for DescribeQuorum and for people."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.node import Node
from tidelog.raft.replicas import ReplicaKey
from tidelog.raft.roles import Leader


class ReplicaProgress(NamedTuple):
    """How far a replica has come; times are those of the machine's clock, -1 for never."""

    key: ReplicaKey
    end_offset: Offset
    fetched_ms: int
    caught_up_ms: int


class QuorumDescription(NamedTuple):
    """Voters and observers are empty unless this node leads."""

    leader: NodeId
    epoch: LeaderEpoch
    high_watermark: Offset
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...]


def describe(node: Node) -> QuorumDescription:
    role = node.role
    if not isinstance(role, Leader):
        return QuorumDescription(node.leader, node.epoch, node.high_watermark, (), ())
    replicas = [ReplicaProgress(node.key, node.end_offset, node.now_ms, node.now_ms)]
    for key, position in role.positions.items():
        replicas.append(ReplicaProgress(key, position.end_offset, position.fetched_ms, position.caught_up_ms))
    replicas.sort()
    latest = node.voters.latest
    return QuorumDescription(
        node.leader,
        node.epoch,
        node.high_watermark,
        # A voter that is a setting is named as the setting names it: without a directory.
        tuple(replica._replace(key=known) for replica in replicas if (known := latest.matching(replica.key))),
        tuple(replica for replica in replicas if latest.matching(replica.key) is None),
    )
