"""What a member of a classic group says and hears: subscriptions, assignments, and the requests that carry them.

Partitions are shared by ranges, which every Kafka client knows, so that members of several clients go together. Sent by
`client/group_consumer.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

from tidelog.client.core.offsets import by_topic
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.wire.compiler import decode, encode
from tidelog.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tidelog.wire.messages.consumer_protocol import TopicPartition as AssignedTopic
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

CONSUMER: Final = "consumer"
RANGE: Final = "range"
LEAVE_SEVERAL_VERSION: Final = 3
NO_GENERATION: Final = -1
# Both messages have a 16-bit version before them; version 0 is a part of all later ones.
_PREFIX: Final = Struct(">h")
_VERSION: Final = 0


class Membership(NamedTuple):
    """Who a member is in its group now."""

    group_id: str
    member_id: str = ""
    generation: int = NO_GENERATION


def join(membership: Membership, topics: Sequence[str], session_ms: int, rebalance_ms: int) -> JoinGroupRequest:
    subscription = ConsumerProtocolSubscription(list(topics))
    metadata = _PREFIX.pack(_VERSION) + encode(subscription, _VERSION)
    return JoinGroupRequest(
        membership.group_id,
        session_ms,
        rebalance_ms,
        membership.member_id,
        protocol_type=CONSUMER,
        protocols=[JoinGroupRequestProtocol(RANGE, metadata)],
    )


def subscriptions(answer: JoinGroupResponse) -> dict[str, list[str]]:
    """What each member wants to read; told to the leader alone."""
    return {
        member.member_id: list(
            decode(ConsumerProtocolSubscription, _VERSION, memoryview(member.metadata)[_PREFIX.size :]).topics
        )
        for member in answer.members
    }


def share_by_ranges(
    wanted: Mapping[str, Iterable[str]], partitions: Mapping[TopicName, int]
) -> dict[str, list[TopicPartition]]:
    """Each topic is cut into ranges, one for each member that wants it; the first members get the longer ones."""
    shares: dict[str, list[TopicPartition]] = {member: [] for member in wanted}
    for topic in sorted(partitions):
        members = sorted(member for member, topics in wanted.items() if topic in topics)
        if not members:
            continue
        size, longer = divmod(partitions[topic], len(members))
        first = 0
        for number, member in enumerate(members):
            end = first + size + (number < longer)
            shares[member] += [TopicPartition(topic, PartitionIndex(index)) for index in range(first, end)]
            first = end
    return shares


def sync(membership: Membership, shares: Mapping[str, Sequence[TopicPartition]]) -> SyncGroupRequest:
    """The leader tells everyone's share, the others nothing."""
    return SyncGroupRequest(
        membership.group_id,
        membership.generation,
        membership.member_id,
        protocol_type=CONSUMER,
        protocol_name=RANGE,
        assignments=[SyncGroupRequestAssignment(member, _assignment(share)) for member, share in shares.items()],
    )


def assigned(assignment: bytes | memoryview) -> list[TopicPartition]:
    if not assignment:
        return []
    read = decode(ConsumerProtocolAssignment, _VERSION, memoryview(assignment)[_PREFIX.size :])
    return [
        TopicPartition(TopicName(topic.topic), PartitionIndex(index))
        for topic in read.assigned_partitions
        for index in topic.partitions
    ]


def heartbeat(membership: Membership) -> HeartbeatRequest:
    return HeartbeatRequest(membership.group_id, membership.generation, membership.member_id)


def leave(membership: Membership, version: int) -> LeaveGroupRequest:
    if version < LEAVE_SEVERAL_VERSION:
        return LeaveGroupRequest(membership.group_id, membership.member_id)
    return LeaveGroupRequest(membership.group_id, members=[MemberIdentity(membership.member_id)])


def _assignment(share: Sequence[TopicPartition]) -> bytes:
    topics = [
        AssignedTopic(name, [int(index) for index, _ in rows]) for name, rows in by_topic(dict.fromkeys(share)).items()
    ]
    return _PREFIX.pack(_VERSION) + encode(ConsumerProtocolAssignment(topics), _VERSION)
