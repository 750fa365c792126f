"""DescribeQuorum (key 55), v0-v2. v1: when replicas fetched last (KIP-836). v2: directory ids and nodes (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.raft.answering import QuorumDesk, names_metadata
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.raft.description import QuorumDescription, ReplicaProgress
from tidelog.wire.messages import describe_quorum as wire

FIRST_VERSION_WITH_NODES: Final = 2


class DescribeQuorumHandler:
    """Only the leader knows how far the others are; a broker passes the request on to it."""

    def __init__(self, desk: QuorumDesk) -> None:
        self._desk = desk

    def __call__(self, call: Call, request: wire.DescribeQuorumRequest) -> wire.DescribeQuorumResponse:
        quorum = self._desk.driver.quorum
        described = quorum.describe()
        with_nodes = call.header.api_version >= FIRST_VERSION_WITH_NODES
        topics = [
            wire.DescribeQuorumResponseTopicData(
                topic.topic_name,
                [
                    _partition(partition.partition_index, described, names_metadata(topic.topic_name, 1), with_nodes)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        nodes = [
            wire.Node(
                voter.key.node_id,
                [wire.Listener(point.listener, point.host, point.port) for point in voter.endpoints],
            )
            for voter in quorum.voters.voters
            if with_nodes
        ]
        return wire.DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes)


def _partition(
    index: int, described: QuorumDescription, exists: bool, with_ids: bool
) -> wire.DescribeQuorumResponsePartitionData:
    if not exists or index != 0:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return wire.DescribeQuorumResponsePartitionData(index, error, error_message=None)
    if not described.voters:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return wire.DescribeQuorumResponsePartitionData(
            index, error, None, described.leader, described.epoch, described.high_watermark
        )
    return wire.DescribeQuorumResponsePartitionData(
        index,
        0,
        None,
        described.leader,
        described.epoch,
        described.high_watermark,
        _states(described.voters, with_ids),
        _states(described.observers, with_ids),
    )


def _states(replicas: Iterable[ReplicaProgress], with_ids: bool) -> list[wire.ReplicaState]:
    return [
        wire.ReplicaState(
            replica.key.node_id,
            replica.key.directory_id if with_ids else ZERO_UUID,
            replica.end_offset,
            replica.fetched_ms,
            replica.caught_up_ms,
        )
        for replica in replicas
    ]
