"""Consumer groups as an admin client sees them, and the requests about them with what their answers mean.

Sent by `client/groups.py`. Topics are named, never given by id, so that every broker understands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.core.metadata import Node
from tidelog.client.core.offsets import by_topic
from tidelog.client.errors import Rejected, rejection
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.compiler import decode
from tidelog.wire.messages import consumer_group_describe as modern
from tidelog.wire.messages import describe_groups as classic
from tidelog.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.list_groups import ListGroupsResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

CLASSIC: Final = "Classic"
CONSUMER: Final = "Consumer"
# The protocol type of groups whose members read topics; Connect and others have their own.
CONSUMER_PROTOCOL: Final = "consumer"
EMPTY_STATE: Final = "Empty"
DEAD_STATE: Final = "Dead"
# The newest versions that name topics; later ones use ids.
OFFSET_COMMIT_BY_NAME: Final = 9
OFFSET_FETCH_BY_NAME: Final = 9
FIND_SEVERAL_VERSION: Final = 4
FETCH_SEVERAL_VERSION: Final = 8
GROUP_KEY: Final = 0
NO_OFFSET: Final = -1
# Numbers of member kinds in ConsumerGroupDescribe (KIP-1099).
CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list. State and type are empty when the broker is too old to tell."""

    id: str
    protocol_type: str
    state: str
    type: str

    @property
    def is_consumers(self) -> bool:
        """Whether its members read topics, or only its offsets are used."""
        return self.type == CONSUMER or self.protocol_type in ("", CONSUMER_PROTOCOL)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member. Epoch, target and `upgraded` are known for groups of the new protocol alone."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None
    upgraded: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members. Epochs are known for groups of the new protocol alone."""

    id: str
    type: str
    state: str
    assignor: str
    coordinator: Node
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    target_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """How far a group has come in a partition."""

    offset: Offset
    leader_epoch: LeaderEpoch = NO_EPOCH
    metadata: str = ""


def find_coordinator(group_id: str, version: int) -> FindCoordinatorRequest:
    if version < FIND_SEVERAL_VERSION:
        return FindCoordinatorRequest(group_id)
    return FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=[group_id])


def found_coordinator(answer: FindCoordinatorResponse) -> Node | Rejected:
    found = answer.coordinators[0] if answer.coordinators else answer
    rejected = rejection(found.error_code, found.error_message or None)
    return rejected or Node(NodeId(found.node_id), found.host, found.port)


def listed_groups(answer: ListGroupsResponse) -> list[GroupListing]:
    return [
        # Brokers differ in how they write the type: Classic or classic.
        GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type.capitalize())
        for group in answer.groups
    ]


def described_modern(answer: modern.ConsumerGroupDescribeResponse, coordinator: Node) -> GroupDescription | Rejected:
    """One group of the new protocol; GROUP_ID_NOT_FOUND when it is a classic one."""
    (group,) = answer.groups
    return rejection(group.error_code, group.error_message) or GroupDescription(
        group.group_id,
        CONSUMER,
        group.group_state,
        group.assignor_name,
        coordinator,
        tuple(_modern_member(member) for member in group.members),
        group.group_epoch,
        group.assignment_epoch,
    )


def described_classic(answer: classic.DescribeGroupsResponse, coordinator: Node) -> GroupDescription | Rejected:
    (group,) = answer.groups
    if group.error_code == ErrorCode.NONE and group.group_state == DEAD_STATE:
        # Brokers before version 6 say of a group that is not there that it is dead.
        return Rejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} not found.")
    return rejection(group.error_code, group.error_message) or GroupDescription(
        group.group_id,
        CLASSIC,
        group.group_state,
        group.protocol_data,
        coordinator,
        tuple(_classic_member(member, group.protocol_type) for member in group.members),
    )


def fetch_offsets(
    group_id: str, partitions: Iterable[TopicPartition] | None, version: int, require_stable: bool = False
) -> OffsetFetchRequest:
    """Of some partitions, or of all in which the group has an offset; stable: no transaction may still move it."""
    named = None if partitions is None else by_topic(dict.fromkeys(partitions))
    indexes = None if named is None else {name: [int(index) for index, _ in rows] for name, rows in named.items()}
    if version < FETCH_SEVERAL_VERSION:
        topics = None if indexes is None else [OffsetFetchRequestTopic(*row) for row in indexes.items()]
        return OffsetFetchRequest(group_id, topics, require_stable=require_stable)
    several = (
        None
        if indexes is None
        else [OffsetFetchRequestTopics(name, partition_indexes=rows) for name, rows in indexes.items()]
    )
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=several)], require_stable=require_stable)


def fetched_offsets(answer: OffsetFetchResponse) -> dict[TopicPartition, CommittedOffset | Rejected]:
    """The offsets of one group; a partition without one is left out."""
    error = answer.groups[0].error_code if answer.groups else answer.error_code
    rejected = rejection(error)
    if rejected is not None:
        raise rejected
    found: dict[TopicPartition, CommittedOffset | Rejected] = {}
    for topic in answer.groups[0].topics if answer.groups else answer.topics:
        for partition in topic.partitions:
            place = TopicPartition(TopicName(topic.name), PartitionIndex(partition.partition_index))
            refused = rejection(partition.error_code)
            if refused is not None:
                found[place] = refused
            elif partition.committed_offset != NO_OFFSET:
                found[place] = CommittedOffset(
                    Offset(partition.committed_offset),
                    LeaderEpoch(partition.committed_leader_epoch),
                    partition.metadata or "",
                )
    return found


def commit_offsets(group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> OffsetCommitRequest:
    """A commit of nobody: accepted while the group has no members."""
    return OffsetCommitRequest(
        group_id,
        topics=[
            OffsetCommitRequestTopic(
                name,
                partitions=[
                    OffsetCommitRequestPartition(index, wanted.offset, wanted.leader_epoch, wanted.metadata)
                    for index, wanted in rows
                ],
            )
            for name, rows in by_topic(offsets).items()
        ],
    )


def committed_offsets(answer: OffsetCommitResponse) -> dict[TopicPartition, Rejected | None]:
    return {
        TopicPartition(TopicName(topic.name), PartitionIndex(partition.partition_index)): rejection(
            partition.error_code
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


def delete_offsets(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id,
        [
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index) for index, _ in rows])
            for name, rows in by_topic(dict.fromkeys(partitions)).items()
        ],
    )


def deleted_offsets(answer: OffsetDeleteResponse) -> dict[TopicPartition, Rejected | None]:
    rejected = rejection(answer.error_code)
    if rejected is not None:
        raise rejected
    return {
        TopicPartition(TopicName(topic.name), PartitionIndex(partition.partition_index)): rejection(
            partition.error_code
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


def _modern_member(member: modern.Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _places((topic.topic_name, topic.partitions) for topic in member.assignment.topic_partitions),
        member.member_epoch,
        _places((topic.topic_name, topic.partitions) for topic in member.target_assignment.topic_partitions),
        member.member_type == CONSUMER_MEMBER if member.member_type in (CLASSIC_MEMBER, CONSUMER_MEMBER) else None,
    )


def _classic_member(member: classic.DescribedGroupMember, protocol_type: str) -> GroupMember:
    assignment: tuple[TopicPartition, ...] = ()
    encoded = member.member_assignment
    if protocol_type == CONSUMER_PROTOCOL and encoded:
        try:
            # A version, then the message, which begins alike in all of them.
            read = decode(ConsumerProtocolAssignment, 0, memoryview(encoded)[2:])
            assignment = _places((topic.topic, topic.partitions) for topic in read.assigned_partitions)
        except ProtocolError:
            pass  # A client wrote what it alone can read.
    return GroupMember(member.member_id, member.group_instance_id, member.client_id, member.client_host, assignment)


def _places(topics: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(TopicPartition(TopicName(name), PartitionIndex(index)) for name, rows in topics for index in rows)
    )
