"""ConsumerGroupDescribe (key 69), v0-v1: a consumer group with what each member has and is to have."""

from __future__ import annotations

from typing import Final

from tidelog.groups.consumer.assignment import NOTHING
from tidelog.groups.consumer.assignment import Assignment as Partitions
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.member import ConsumerMember
from tidelog.groups.consumer.target import preferred_assignor
from tidelog.groups.records import Record
from tidelog.groups.shard import GroupShard
from tidelog.machine.runtime import Result
from tidelog.metadata.image import ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe_consumer_group(shard: GroupShard, group_id: str) -> Result[Record, DescribedGroup]:
    """One consumer group."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        problem = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        unknown = DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=problem, group_id=group_id)
        return Result((), unknown)
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.members, shard.settings.consumer_assignors[0]),
        members=[
            _member(member, group.target.get(member.member_id, NOTHING), shard.image)
            for member in group.members.values()
        ],
    )
    return Result((), described)


def _member(member: ConsumerMember, target: Partitions, image: ClusterImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_assignment(member.assigned, image),
        target_assignment=_assignment(target, image),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Partitions, image: ClusterImage) -> Assignment:
    """Topics that are gone have no name and are left out."""
    return Assignment(
        [
            TopicPartitions(topic_id, topic.name, sorted(indexes))
            for topic_id, indexes in partitions.items()
            if (topic := image.topic_by_id(topic_id)) is not None
        ]
    )
