"""The target assignment of a group epoch: who is to have what, once everyone has let go of what it is not to have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidelog.groups.consumer.assignment import NOTHING, Assignment
from tidelog.groups.consumer.assignors import ASSIGNORS
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.member import ConsumerMember
from tidelog.groups.consumer.readers import Reader
from tidelog.groups.consumer.records import target_epoch_record, target_record
from tidelog.groups.records import Record
from tidelog.metadata.image import ClusterImage
from tidelog.model.ids import TopicId


def topic_ids(topics: frozenset[str], image: ClusterImage) -> frozenset[TopicId]:
    """The ids of those topics that exist."""
    found = (image.topic(name) for name in topics)
    return frozenset(topic.topic_id for topic in found if topic is not None)


def preferred_assignor(members: Mapping[str, ConsumerMember], default: str) -> str:
    """What most members ask for."""
    votes = Counter(member.assignor for member in members.values() if member.assignor is not None)
    return max(votes.items(), key=lambda item: (item[1], item[0]))[0] if votes else default


def new_target(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    topics: Mapping[str, frozenset[str]],
    epoch: int,
    image: ClusterImage,
    default_assignor: str,
) -> tuple[dict[str, Assignment], list[Record]]:
    """Assign for an epoch, among members as they are going to be; the records say what is different from before."""
    ids = {name: topic_ids(topics[name], image) for name in members}
    sizes = {
        topic_id: len(image.topics_by_id[topic_id].partitions) for topic_id in frozenset[TopicId]().union(*ids.values())
    }
    readers = {name: Reader(ids[name], group.target_of(member), member.instance_id) for name, member in members.items()}
    target = ASSIGNORS[preferred_assignor(members, default_assignor)](readers, sizes) if readers else {}
    records: list[Record] = [
        target_record(group.group_id, name, target.get(name, NOTHING))
        for name in members
        if group.target.get(name) != target.get(name, NOTHING)
    ]
    return target, [*records, target_epoch_record(group.group_id, epoch)]
