"""A consumer group, made of records alone: epoch, members, target assignment, resolved patterns.

The group's epoch rises when what is to be shared, or among whom, changes; the target assignment follows it; each member
follows the target at its own pace, and a partition is given to a member only when nobody else has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from tidelog.groups.classic.subscriptions import CONSUMER
from tidelog.groups.consumer.assignment import NOTHING, Assignment
from tidelog.groups.consumer.member import ConsumerMember
from tidelog.model.ids import TopicId

NO_ASSIGNMENT_EPOCH: Final = -1


class ConsumerState(Enum):
    """By its name in ConsumerGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    # The target assignment is behind the group.
    ASSIGNING = "Assigning"
    # Members are on their way to the target assignment.
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Resolved(msgspec.Struct, frozen=True):
    """The topics that matched a pattern, in which metadata, and when."""

    topics: frozenset[str]
    version: int = 0
    timestamp_ms: int = 0


class Refresh(NamedTuple):
    """When the coordinator last compared the group with the topics that there are. Not replicated."""

    # When to do so again even if nothing is known to have changed.
    again_at_ms: int
    # Which topics were looked at, by the shard's own count of changes.
    topics_version: int
    # The epoch that came of it; the group is behind it only when that could not be written.
    epoch: int


NEVER_REFRESHED: Final = Refresh(0, -1, 0)


class ConsumerGroup:
    """One group. Only replay changes it, except for `refresh`."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        # Instance id -> member id.
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Assignment] = {}
        self.resolved: dict[str, Resolved] = {}
        # Who has a partition, or has not yet given it up.
        self.owners: dict[TopicId, dict[int, str]] = {}
        # A record of Kafka 4.0 that a newer one would remove.
        self.has_partition_metadata = False
        self.refresh = NEVER_REFRESHED

    @property
    def protocol_type(self) -> str:
        return CONSUMER

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def patterns(self) -> Counter[str]:
        """The patterns that members subscribe to, and how many do."""
        return Counter(member.pattern for member in self.members.values() if member.pattern is not None)

    def is_stale(self, now_ms: int, topics_version: int) -> bool:
        """Whether topics may have changed since the group was compared with them."""
        last = self.refresh
        return now_ms >= last.again_at_ms or topics_version != last.topics_version or self.epoch < last.epoch

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        holder = None if instance_id is None else self.static_members.get(instance_id)
        return None if holder is None else self.members[holder]

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What a member reads, by name or because its pattern matched."""
        resolved = None if member.pattern is None else self.resolved.get(member.pattern)
        return member.topics if resolved is None else member.topics | resolved.topics

    def topics(self) -> frozenset[str]:
        """What the group reads."""
        return frozenset[str]().union(*(self.topics_of(member) for member in self.members.values()))

    def owner(self, topic_id: TopicId, partition: int) -> str | None:
        partitions = self.owners.get(topic_id)
        return None if partitions is None else partitions.get(partition)

    def target_of(self, member: ConsumerMember) -> Assignment:
        """What a member is to have; a static member has what its predecessor was to have."""
        holder = member.member_id
        if member.instance_id is not None:
            holder = self.static_members.get(member.instance_id, holder)
        return self.target.get(holder, NOTHING)

    def others_speak_classic(self, leaving: Iterable[ConsumerMember]) -> bool:
        """Whether all members but those that leave speak the classic protocol."""
        gone = {member.member_id for member in leaving}
        return all(member.classic is not None for member in self.members.values() if member.member_id not in gone)

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether a partition that a member is to have is still another's."""
        return any(
            self.owner(topic_id, partition) not in (None, member.member_id)
            for topic_id, partitions in self.target.get(member.member_id, NOTHING).items()
            for partition in partitions
        )

    def put(self, member: ConsumerMember) -> None:
        self._release(self.members.get(member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for assignment in (member.assigned, member.revoking):
            for topic_id, partitions in assignment.items():
                owned = self.owners.setdefault(topic_id, {})
                for partition in partitions:
                    owned[partition] = member.member_id

    def remove(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is None:
            return
        self._release(member)
        del self.members[member_id]
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _release(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for assignment in (member.assigned, member.revoking):
            for topic_id, partitions in assignment.items():
                owned = self.owners.get(topic_id, {})
                for partition in partitions:
                    # Another member's record may have come in between.
                    if owned.get(partition) == member.member_id:
                        del owned[partition]
                if not owned:
                    self.owners.pop(topic_id, None)
