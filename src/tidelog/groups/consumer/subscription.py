"""What a group reads: names and patterns of its members against the topics that exist, and whether that has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b

from tidelog.groups.consumer.group import ConsumerGroup, Resolved
from tidelog.groups.consumer.member import ConsumerMember
from tidelog.groups.consumer.patterns import compile_pattern
from tidelog.groups.consumer.records import pattern_record
from tidelog.groups.records import Record
from tidelog.metadata.image import ClusterImage


class GroupAfter:
    """A group as it will be when a member has changed, or members are gone, and its patterns are resolved anew."""

    def __init__(self, group: ConsumerGroup, members: Mapping[str, ConsumerMember], image: ClusterImage) -> None:
        self.group = group
        self.members = members
        self.image = image
        wanted = {member.pattern for member in members.values() if member.pattern is not None}
        self.resolved = {pattern: found for pattern, found in group.resolved.items() if pattern in wanted}
        self.unresolved = sorted(wanted - self.resolved.keys())

    def resolve(self, patterns: Iterable[str], now_ms: int) -> list[Record]:
        """Match patterns against all topics; the records say what is new."""
        records: list[Record] = []
        for pattern in patterns:
            matches = compile_pattern(pattern).matches
            topics = frozenset(str(name) for name in self.image.topics_by_name if matches(name))
            before = self.resolved.get(pattern)
            if before is None or before.topics != topics:
                self.resolved[pattern] = Resolved(topics, self.image.offset, now_ms)
                records.append(pattern_record(self.group.group_id, pattern, self.resolved[pattern]))
        return records

    def forgotten(self) -> list[Record]:
        """Tombstones of patterns that nobody subscribes to any more."""
        return [
            pattern_record(self.group.group_id, pattern, None)
            for pattern in self.group.resolved
            if pattern not in self.resolved
        ]

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        resolved = None if member.pattern is None else self.resolved.get(member.pattern)
        return member.topics if resolved is None else member.topics | resolved.topics

    def topics(self) -> dict[str, frozenset[str]]:
        """What each member reads."""
        return {name: self.topics_of(member) for name, member in self.members.items()}

    def metadata_hash(self) -> int:
        """A number that changes when a topic that the group reads comes, goes, is made anew or grows."""
        digest = blake2b(digest_size=8)
        for name in sorted(frozenset[str]().union(*self.topics().values())):
            topic = self.image.topic(name)
            if topic is not None:
                digest.update(topic.topic_id.bytes + len(topic.partitions).to_bytes(4) + name.encode())
        return int.from_bytes(digest.digest(), signed=True)
