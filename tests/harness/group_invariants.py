"""What must hold at every step of a run, whatever was lost, delayed or crashed.

Judged from the outside: from the bytes in the log and the answers that clients get, with as little as possible of the
code under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from harness.group_desk import WrittenRecord, read_back
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import State
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.offsets.store import CommittedOffset
from tidelog.groups.records import EndTransaction
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.compiler import decode
from tidelog.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from tidelog.wire.messages.group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from harness.group_world import Call, Host

# Longer than any rebalance, session and time for new members in these runs together.
WAIT_MS_MAX = 60_000

Partition = tuple[str, int]
# Group, topic, partition.
Place = tuple[str, str, int]


class Believer(Protocol):
    """A consumer, for what it believes."""

    group_id: str
    member_id: str
    owned: set[Partition]


class Violation(AssertionError):
    """Something that must never happen."""


def partitions_of(assignment: bytes) -> set[Partition]:
    """The partitions in what a leader gave a member."""
    if not assignment:
        return set()
    read = decode(ConsumerProtocolAssignment, 0, memoryview(assignment)[2:])
    return {(topic.topic, number) for topic in read.assigned_partitions for number in topic.partitions}


class Invariants:
    """The judge of one run."""

    def __init__(self, host: Host) -> None:
        self.host = host
        # What the log says, key by key, by no other code than a dictionary's.
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.generations: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        # The offset that is safe and whose it is, and the largest that ever was.
        self.committed_offsets: dict[Place, tuple[int, str]] = {}
        self.safe_offsets: dict[Place, int] = {}
        # Group and generation -> partition -> who was told that it has it.
        self.told: dict[tuple[str, int], dict[Partition, str]] = {}
        self.shadow: GroupShard = host._build()
        self.shadow_end = 0
        self.touched: set[str] = set()
        self.batches_committed = 0
        # Consumers of the KIP-848 protocol: what each believes it has.
        self.consumers: list[Believer] = []

    def reloaded(self) -> None:
        """A new coordinator has read the log, which may be shorter than what the one before it wrote."""
        self.shadow = self.host._build()
        self.shadow_end = 0
        self.offsets.clear()
        for batch in self.host.batches:
            self.appended(batch)
        for batch in self.host.batches[self.batches_committed :]:
            self.committed(batch)
        self.check(None)

    def appended(self, batch: Sequence[WrittenRecord]) -> None:
        """A batch was written: replay it beside the coordinator."""
        records = [read_back(record) for record in batch]
        self.shadow_end += len(records)
        self.shadow.replay(records, Offset(self.shadow_end - 1), LeaderEpoch(0))
        for record in records:
            assert not isinstance(record, EndTransaction)
            key = record.key
            if isinstance(key, OffsetCommitKey):
                place = (key.group, key.topic, key.partition)
                if isinstance(record.value, OffsetCommitValue):
                    self.offsets[place] = record.value.offset
                else:
                    self.offsets.pop(place, None)
                self.touched.add(key.group)
            else:
                self.touched.add(key.group if isinstance(key, GroupMetadataKey) else key.group_id)  # type: ignore[attr-defined]

    def committed(self, batch: Sequence[WrittenRecord]) -> None:
        """A batch is safe: from now on nothing of it may be taken back."""
        author = self.host.authors[self.batches_committed]
        self.batches_committed += 1
        for raw in batch:
            record = read_back(raw)
            assert not isinstance(record, EndTransaction)
            key, value = record.key, record.value
            if isinstance(key, OffsetCommitKey):
                self._offset_committed((key.group, key.topic, key.partition), value, author)
            elif isinstance(key, GroupMetadataKey) and isinstance(value, GroupMetadataValue):
                self._rises("generation", self.generations, key.group, value.generation)
                self._one_owner(key.group, value)
            elif isinstance(key, GroupMetadataKey | ConsumerGroupMetadataKey) and value is None:
                # A group that is deleted, or becomes one of the other kind, which goes on counting.
                name = key.group if isinstance(key, GroupMetadataKey) else key.group_id
                self.generations.pop(name, None)
                self.epochs.pop(name, None)
                self.told = {place: owners for place, owners in self.told.items() if place[0] != name}
            elif isinstance(key, ConsumerGroupMetadataKey) and isinstance(value, ConsumerGroupMetadataValue):
                self._rises("epoch", self.epochs, key.group_id, value.epoch)

    def _offset_committed(self, place: Place, value: Any, author: str) -> None:
        if value is None:
            self.committed_offsets.pop(place, None)
            return
        before, its_author = self.committed_offsets.get(place, (0, author))
        if value.offset < before and author != its_author:
            # Only its own commits may overtake each other, over different connections.
            raise Violation(f"{author} took the offset of {place} back from {before} to {value.offset}")
        self.committed_offsets[place] = value.offset, author
        self.safe_offsets[place] = max(value.offset, self.safe_offsets.get(place, 0))

    def _rises(self, what: str, seen: dict[str, int], group_id: str, number: int) -> None:
        if number < seen.get(group_id, 0):
            raise Violation(f"the {what} of {group_id} went back from {seen[group_id]} to {number}")
        seen[group_id] = number

    def _one_owner(self, group_id: str, value: GroupMetadataValue) -> None:
        owned: set[Partition] = set()
        for member in value.members:
            mine = partitions_of(bytes(member.assignment))
            if mine & owned:
                raise Violation(f"generation {value.generation} of {group_id} gives {mine & owned} to two members")
            owned |= mine

    def answered(self, call: Call, response: Any) -> None:
        """An answer leaves the coordinator."""
        if isinstance(response, OffsetCommitResponse):
            self._acknowledged(call.request, response)
        elif isinstance(response, SyncGroupResponse) and response.error_code == ErrorCode.NONE:
            self._told(call.request, response)
        elif isinstance(response, JoinGroupResponse) and response.error_code == ErrorCode.NONE:
            group = self.host.shard.groups.get(call.request.group_id)
            if isinstance(group, ClassicGroup) and response.generation_id > group.generation:
                raise Violation(f"{call.client.name} was told of generation {response.generation_id} before it began")

    def _acknowledged(self, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        """What is acknowledged is safe, unless its topic was deleted since."""
        for asked, topic in zip(request.topics, response.topics, strict=True):
            for sent, partition in zip(asked.partitions, topic.partitions, strict=True):
                safe = self.safe_offsets.get((request.group_id, asked.name, sent.partition_index), -1)
                told = partition.error_code == ErrorCode.NONE and asked.name in self.host.world.topics
                if told and safe < sent.committed_offset:
                    raise Violation(f"offset {sent.committed_offset} was acknowledged before it was safe")

    def _told(self, request: SyncGroupRequest, response: SyncGroupResponse) -> None:
        """A member hears what it has: nobody else may have heard so in this generation."""
        owners = self.told.setdefault((request.group_id, request.generation_id), {})
        who = request.group_instance_id or request.member_id
        for partition in partitions_of(bytes(response.assignment)):
            if owners.setdefault(partition, who) != who:
                raise Violation(
                    f"in generation {request.generation_id} both {owners[partition]} and {who} have {partition}"
                )
        group = self.host.shard.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            member = group.members.get(request.member_id)
            if (
                member is not None
                and group.generation == request.generation_id
                and group.state is State.STABLE
                and bytes(response.assignment) != member.assignment
            ):
                raise Violation(f"{who} was told of another assignment than its leader gave it")

    def check(self, call: Call | None) -> None:
        """After each step: the coordinator is what the log makes of it, and nobody waits for ever."""
        if call is not None:
            self.touched.add(call.request.group_id)
        for group_id in self.touched:
            self._equals_replay(group_id)
        if self.touched:
            for consumer in self.consumers:
                self._has_what_it_believes(consumer)
        self.touched.clear()
        now_ms = self.host.world.now_ms
        for waiting in self.host.waiting:
            if now_ms - waiting.arrived_ms > WAIT_MS_MAX:
                raise Violation(f"{type(waiting.request).__name__} of {waiting.client.name} waits for ever")

    def _has_what_it_believes(self, consumer: Believer) -> None:
        """A member that the coordinator knows reads nothing that the coordinator may give to others."""
        group = self.host.shard.groups.get(consumer.group_id)
        member = group.members.get(consumer.member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or not consumer.owned:
            return  # It was fenced and has not heard of it yet.
        names = {topic.topic_id: str(topic.name) for topic in self.host.image.topics_by_id.values()}
        has = {
            (names.get(topic_id, ""), number)
            for assignment in (member.assigned, member.revoking)
            for topic_id, partitions in assignment.items()
            for number in partitions
        }
        extra = {partition for partition in consumer.owned if partition[0] in self.host.world.topics} - has
        if extra:
            raise Violation(f"{consumer.member_id} reads {extra}, which the coordinator believes to be free")

    def _equals_replay(self, group_id: str) -> None:
        live, shadow = self.host.shard, self.shadow
        expected = {place[1:]: offset for place, offset in self.offsets.items() if place[0] == group_id}
        for shard in (live, shadow):
            if _offsets(shard, group_id) != expected:
                raise Violation(f"the offsets of {group_id} are not those in the log")
        group, replayed = live.groups.get(group_id), shadow.groups.get(group_id)
        if (group is None) != (replayed is None):
            raise Violation(f"{group_id} is {group and group.state}, but after a replay {replayed and replayed.state}")
        if isinstance(group, ConsumerGroup):
            _same_consumer_group(group, replayed)
        elif isinstance(group, ClassicGroup) and group.state in (State.STABLE, State.EMPTY):
            _same_classic_group(group, replayed)


def _offsets(shard: GroupShard, group_id: str) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    for topic, partitions in shard.offsets.by_group.get(group_id, {}).items():
        for number, committed in partitions.items():
            assert isinstance(committed, CommittedOffset)
            found[topic, number] = committed.offset
    return found


def _same_classic_group(live: ClassicGroup, replayed: Any) -> None:
    if not isinstance(replayed, ClassicGroup) or _classic_view(live) != _classic_view(replayed):
        raise Violation(f"{live.group_id} is not what the log says: {_classic_view(live)}, {_classic_view(replayed)}")


def _classic_view(group: ClassicGroup) -> Any:
    members = {
        member.member_id: (member.instance_id, member.session_timeout_ms, member.assignment)
        for member in group.members.values()
    }
    return (
        group.state,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        group.topics,
        members,
        group.static_members,
    )


def _same_consumer_group(live: ConsumerGroup, replayed: Any) -> None:
    owned: dict[tuple[Any, int], str] = {}
    for member in live.members.values():
        for assignment in (member.assigned, member.revoking):
            for topic_id, partitions in assignment.items():
                for number in partitions:
                    other = owned.setdefault((topic_id, number), member.member_id)
                    if other != member.member_id:
                        raise Violation(f"both {other} and {member.member_id} have partition {number} of {topic_id}")
    if not isinstance(replayed, ConsumerGroup):
        raise Violation(f"{live.group_id} is a classic group in the log")
    for name in ("epoch", "assignment_epoch", "metadata_hash", "members", "target", "resolved", "owners"):
        if getattr(live, name) != getattr(replayed, name):
            raise Violation(f"{name} of {live.group_id} is not what the log says")
