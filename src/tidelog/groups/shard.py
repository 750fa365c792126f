"""The machine of one partition of `__consumer_offsets`: all groups that it keeps, and their offsets.

Commands are functions over a `GroupShard` that take a request, who asks, and the time, and return records and replies
(`calls.py`). Only `replay` changes what is written down. What never is (who waits, sessions, the progress of a
classic rebalance) is changed by commands, as heartbeats change a controller's sessions: it is lost with the
leadership, and a group begins again from what was written. Timers are data (`deadlines.py`): whoever drives the shard
submits `expiry.expire` whenever `next_deadline_ms` has passed. Time is passed in and must neither go back nor leap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from tidelog.groups.calls import Reply
from tidelog.groups.classic.answers import join_error, sync_error
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import State
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.replay import REPLAYS as CONSUMER_REPLAYS
from tidelog.groups.deadlines import Alarm, Deadlines, Timer
from tidelog.groups.offsets.store import CommittedOffset, OffsetStore
from tidelog.groups.records import EndTransaction, GroupRecord, Record
from tidelog.groups.settings import Settings
from tidelog.metadata.image import EMPTY, ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER, LeaderEpoch, Offset
from tidelog.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tidelog.wire.schema import Message

Group: TypeAlias = ClassicGroup | ConsumerGroup


class Entropy(Protocol):
    """Where the ids of new members come from."""

    def uuid(self) -> UUID: ...


# A tuple, not a union: that would be made anew for each commit.
_OFFSET_KEYS: Final = (OffsetCommitKey, LegacyOffsetCommitKey)


class GroupShard:
    """All that one coordinator knows. Built anew, and replayed, whenever leadership was lost."""

    def __init__(self, settings: Settings, entropy: Entropy, image: ClusterImage = EMPTY) -> None:
        self.settings = settings
        self.entropy = entropy
        self.image = image
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self.deadlines = Deadlines()
        # Of members of consumer groups: sessions, and whatever else they must do in time.
        self.member_timers: dict[tuple[Alarm, str, str], Timer] = {}
        # Rises when topics come, go or grow, so that each group can tell whether it has seen that.
        self.topics_version = 0
        self.retention_timer = Timer(Alarm.RETENTION)
        # Groups that the sweep for expired offsets has not looked at yet.
        self.unswept: list[str] = []
        # Consumer groups that become classic ones with records that are about to be replayed.
        self.downgraded: dict[str, ClassicGroup] = {}
        # From `loading.loaded` on the groups live: what is replayed are records of our own.
        self.leading = False

    def replay(self, records: Sequence[Record], offset: Offset, epoch: LeaderEpoch) -> None:
        """Apply records, of which the last has `offset`."""
        record_offset = offset - len(records)
        for record in records:
            record_offset += 1
            if isinstance(record, EndTransaction):
                self.offsets.end_transaction(record.producer_id, record.committed)
            else:
                _REPLAYS[type(record.key)](self, record, record_offset)

    def next_deadline_ms(self) -> int | None:
        """When `expiry.expire` is to be submitted next; any command may bring it forward."""
        return self.deadlines.next_ms()

    def metadata_changed(self, image: ClusterImage, *, topics_changed: bool = True) -> None:
        """The cluster has changed. When topics came, went or grew (`metadata.topics_changed`), consumer groups look at
        that with their next heartbeat."""
        self.image = image
        self.topics_version += topics_changed

    def unload(self) -> list[Reply]:
        """The leadership is lost: whoever waits is told to look for the new coordinator. The shard is used no more."""
        self.leading = False
        replies: list[Reply] = []
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                continue  # Their members never wait for an answer.
            for member in group.members.values():
                if member.joining is not None:
                    error = join_error(member.member_id, ErrorCode.NOT_COORDINATOR, member.joining.version)
                    replies.append(Reply(member.joining.waiter, error))
                if member.syncing is not None:
                    replies.append(Reply(member.syncing.waiter, sync_error(ErrorCode.NOT_COORDINATOR)))
            group.state = State.DEAD
        return replies

    def _forget_classic_group(self, group: ClassicGroup) -> None:
        del self.groups[group.group_id]
        for timer in group.timers():
            self.deadlines.stop(timer)

    def _replay_offset(self, record: GroupRecord, record_offset: int) -> None:
        key, value = record.key, record.value
        assert isinstance(key, _OFFSET_KEYS)
        if value is None:
            self.offsets.remove(key.group, key.topic, key.partition)
            return
        assert isinstance(value, OffsetCommitValue)
        if key.group not in self.groups:
            # Someone stores offsets without being a member of anything: a simple group.
            self.groups[key.group] = ClassicGroup(key.group)
        committed = CommittedOffset.of(value, record_offset)
        if record.producer_id == NO_PRODUCER:
            self.offsets.put(key.group, key.topic, key.partition, committed)
        else:
            self.offsets.put_pending(record.producer_id, key.group, key.topic, key.partition, committed)

    def _replay_classic_group(self, record: GroupRecord, record_offset: int) -> None:
        key, value = record.key, record.value
        assert isinstance(key, GroupMetadataKey)
        group = self.groups.get(key.group)
        if value is None:
            if isinstance(group, ClassicGroup):
                self._forget_classic_group(group)
            return
        assert isinstance(value, GroupMetadataValue)
        if self.leading and isinstance(group, ClassicGroup):
            group.adopt(value)
        elif self.leading and key.group in self.downgraded:
            self.groups[key.group] = self.downgraded.pop(key.group)
        else:
            self.groups[key.group] = ClassicGroup.load(key.group, value)

    def _replay_consumer_group(self, record: GroupRecord, record_offset: int) -> None:
        group_id: str = record.key.group_id  # type: ignore[attr-defined]
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if record.value is None:
                return
            if group is not None:
                # Only offsets were known of it until now.
                assert not group.members, "a group that changes its kind is deleted first"
                self._forget_classic_group(group)
            group = self.groups[group_id] = ConsumerGroup(group_id)
        if CONSUMER_REPLAYS[type(record.key)](group, record.key, record.value):
            del self.groups[group_id]


_REPLAYS: Final[dict[type[Message], Callable[[GroupShard, GroupRecord, int], None]]] = {
    LegacyOffsetCommitKey: GroupShard._replay_offset,
    OffsetCommitKey: GroupShard._replay_offset,
    GroupMetadataKey: GroupShard._replay_classic_group,
    **dict.fromkeys(CONSUMER_REPLAYS, GroupShard._replay_consumer_group),
}
