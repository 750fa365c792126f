"""The blocking client for the metadata quorum: who leads it, who votes, how far each has read; add and remove voters.

Used by `tidelog cluster quorum`, `tidelog watch` and `kafka-metadata-quorum`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tidelog.client.cluster import Cluster
from tidelog.client.core.bootstrap import Address
from tidelog.client.deadline import Deadline
from tidelog.client.errors import check
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.wire.messages import add_raft_voter, remove_raft_voter
from tidelog.wire.messages import describe_quorum as describe

METADATA_TOPIC: Final = "__cluster_metadata"
NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """One node that holds the metadata log. Times are -1 when the leader does not know them."""

    node_id: NodeId
    directory_id: UUID
    end_offset: Offset
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class Quorum:
    """The metadata quorum as its leader sees it. `addresses`: where the voters listen, by listener."""

    leader: NodeId
    epoch: LeaderEpoch
    high_watermark: Offset
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    addresses: dict[NodeId, tuple[tuple[str, str, int], ...]]

    @property
    def end_offset(self) -> Offset:
        """Where the leader's log ends; the high watermark when nobody leads."""
        ends = [replica.end_offset for replica in self.voters if replica.node_id == self.leader]
        return ends[0] if ends else self.high_watermark


def describe_quorum(cluster: Cluster) -> Quorum:
    """Ask any broker, which asks the quorum's leader."""
    partition = describe.DescribeQuorumRequestPartitionData(0)
    request = describe.DescribeQuorumRequest([describe.DescribeQuorumRequestTopicData(METADATA_TOPIC, [partition])])

    def ask(deadline: Deadline) -> Quorum:
        answer = cluster.call_any(request, describe.DescribeQuorumResponse, deadline)
        check(answer.error_code, answer.error_message or None)
        (found,) = answer.topics[0].partitions
        check(found.error_code, found.error_message or None)
        return Quorum(
            NodeId(found.leader_id),
            LeaderEpoch(found.leader_epoch),
            Offset(found.high_watermark),
            tuple(map(_replica, found.current_voters)),
            tuple(map(_replica, found.observers)),
            {
                NodeId(node.node_id): tuple((one.name, one.host, one.port) for one in node.listeners)
                for node in answer.nodes
            },
        )

    return cluster.retry(ask)


def add_voter(
    cluster: Cluster, cluster_id: str | None, node: NodeId, directory: UUID, listeners: dict[str, Address]
) -> None:
    """Let a node that follows the metadata log vote (KIP-853)."""
    rows = [add_raft_voter.Listener(name, host, port) for name, (host, port) in listeners.items()]

    def ask(deadline: Deadline) -> None:
        timeout_ms = int(deadline.remaining_s() * 1000)
        request = add_raft_voter.AddRaftVoterRequest(cluster_id, timeout_ms, node, directory, rows)
        answer = cluster.call_any(request, add_raft_voter.AddRaftVoterResponse, deadline)
        check(answer.error_code, answer.error_message)

    cluster.retry(ask)


def remove_voter(cluster: Cluster, cluster_id: str | None, node: NodeId, directory: UUID) -> None:
    """Let a node vote no more (KIP-853)."""

    def ask(deadline: Deadline) -> None:
        request = remove_raft_voter.RemoveRaftVoterRequest(cluster_id, node, directory)
        answer = cluster.call_any(request, remove_raft_voter.RemoveRaftVoterResponse, deadline)
        check(answer.error_code, answer.error_message)

    cluster.retry(ask)


def _replica(state: describe.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        NodeId(state.replica_id),
        state.replica_directory_id,
        Offset(state.log_end_offset),
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )
