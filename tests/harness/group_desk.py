"""A group coordinator under a clock of the test's own: a real runtime over a journal that keeps the very bytes.

Time passes only in `pass_time`, which fires every deadline at its moment. `reload` builds the coordinator anew from the
bytes in the journal, as a broker does that takes over.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from tidelog.groups import codec
from tidelog.groups.api import heartbeat, join_group, leave_group, sync_group
from tidelog.groups.attempt import Attempt
from tidelog.groups.calls import Caller, Outcome, Reply
from tidelog.groups.expiry import expire
from tidelog.groups.loading import loaded
from tidelog.groups.records import EndTransaction, GroupRecord, Record
from tidelog.groups.settings import Settings
from tidelog.groups.shard import GroupShard
from tidelog.machine.runtime import Result, Runtime
from tidelog.metadata.image import ClusterImage, PartitionRegistration, TopicImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName
from tidelog.wire.compiler import encode
from tidelog.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

START_MS = 1_700_000_000_000
QUICK = Settings(initial_rebalance_delay_ms=0)
GROUP = "readers"
NEWEST_JOIN = 9

WrittenRecord = tuple[bytes, bytes | None, int, int] | EndTransaction


def subscription(*topics: str) -> bytes:
    """What a consumer puts into JoinGroup."""
    return b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


def cluster(topics: dict[str, int]) -> ClusterImage:
    """An image with topics of so many partitions; the id of a topic comes from its name."""
    partition = PartitionRegistration((NodeId(1),), (NodeId(1),), NodeId(1), LeaderEpoch(0), 0)
    images = [
        TopicImage(TopicName(name), topic_id(name), {PartitionIndex(index): partition for index in range(count)})
        for name, count in topics.items()
    ]
    return ClusterImage(
        topics_by_name={image.name: image for image in images}, topics_by_id={image.topic_id: image for image in images}
    )


def topic_id(name: str) -> UUID:
    return UUID(bytes=(name.encode() * 16)[:16])


class SeededEntropy:
    """Ids that are the same in every run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


class MemoryJournal:
    """Batches as bytes, committed at once unless the test holds them back."""

    def __init__(self) -> None:
        self.batches: list[list[WrittenRecord]] = []
        self.end = Offset(0)
        self.refusal: Exception | None = None
        self.holds = False
        self.committed: Callable[[Offset], None] = lambda _: None

    def append(self, records: Sequence[Record], epoch: LeaderEpoch) -> Offset:
        if self.refusal is not None:
            raise self.refusal
        self.batches.append([written(record) for record in records])
        self.end = Offset(self.end + len(records))
        if not self.holds:
            self.committed(self.end)
        return self.end

    def release(self) -> None:
        self.holds = False
        self.committed(self.end)

    def records(self) -> list[Record]:
        return [read_back(record) for batch in self.batches for record in batch]


def written(record: Record) -> WrittenRecord:
    if isinstance(record, EndTransaction):
        return record
    return codec.encode_key(record), codec.encode_value(record), record.producer_id, record.producer_epoch


def read_back(record: WrittenRecord) -> Record:
    if isinstance(record, EndTransaction):
        return record
    key, value, producer_id, producer_epoch = record
    decoded = codec.decode_record(key, value, producer_id, producer_epoch)  # type: ignore[arg-type]
    assert decoded is not None
    return decoded


class GroupDesk:
    """One coordinator and the answers it gave, by the number of the call."""

    def __init__(self, settings: Settings = QUICK, topics: dict[str, int] | None = None, seed: int = 0) -> None:
        self.settings = settings
        self.image = cluster({"orders": 4, "prices": 2} if topics is None else topics)
        self.entropy = SeededEntropy(seed)
        self.now_ms = START_MS
        self.journal = MemoryJournal()
        self.answers: dict[int, Any] = {}
        self.calls = 0
        self.epoch = 0
        self._lead()

    @property
    def shard(self) -> GroupShard:
        return self.runtime.machine

    def build(self) -> GroupShard:
        return GroupShard(self.settings, self.entropy, self.image)

    def reload(self) -> None:
        """Lose the leadership and win it again: all that is left is what was written."""
        self.note(self.shard.unload())
        self.runtime.resign()
        self._lead()

    def _lead(self) -> None:
        self.epoch += 1
        self.runtime: Runtime[GroupShard, Record] = Runtime(self.build, self.journal, ErrorCode.NOT_COORDINATOR)
        self.journal.committed = self.runtime.committed
        offset = 0
        for batch in self.journal.batches:
            offset += len(batch)
            self.runtime.load([read_back(record) for record in batch], Offset(offset - 1), LeaderEpoch(self.epoch - 1))
        self.runtime.lead(LeaderEpoch(self.epoch), self.journal.end)
        self.submit(lambda shard: loaded(shard, self.now_ms))

    def submit(self, command: Callable[[GroupShard], Outcome]) -> None:
        attempt = Attempt(command)
        self.runtime.submit(attempt, lambda answer: self.note(attempt.replies(answer) or ()))

    def read(self, command: Callable[[GroupShard], Result[Record, Any]]) -> Any:
        """Run a command whose reply is a part of a response."""
        replies: list[Any] = []
        self.runtime.submit(command, replies.append)
        return replies[0]

    def call(self, command: Callable[..., Outcome], request: Any, version: int, *, client_id: str = "client") -> int:
        """Run a command for a caller of its own; the answer is `answers[number]`, when it comes."""
        self.calls += 1
        caller = Caller(self.calls, version, client_id, "/127.0.0.1")
        self.submit(lambda shard: command(shard, request, caller, self.now_ms))
        return caller.waiter  # type: ignore[no-any-return]

    def note(self, replies: Sequence[Reply]) -> None:
        for waiter, response in replies:
            assert waiter not in self.answers, f"call {waiter} was answered twice"
            self.answers[waiter] = response

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass; each deadline fires at its moment."""
        end_ms = self.now_ms + milliseconds
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.submit(lambda shard: expire(shard, self.now_ms))
        self.now_ms = end_ms

    # The requests that most tests make.

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        topics: Sequence[str] = ("orders",),
        protocols: Sequence[str] = ("range",),
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        version: int = NEWEST_JOIN,
        group_id: str = GROUP,
        protocol_type: str = "consumer",
        client_id: str = "client",
    ) -> int:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name, subscription(*topics)) for name in protocols],
        )
        return self.call(join_group, request, version, client_id=client_id)

    def new_member(self, **how: Any) -> tuple[str, int]:
        """Join as a newcomer, with a second request when a member id is required; the id and the number of the call."""
        number = self.join(**how)
        if how.get("instance_id") is None and how.get("version", NEWEST_JOIN) >= 4:
            refused: JoinGroupResponse = self.answers[number]
            assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
            return refused.member_id, self.join(refused.member_id, **how)
        return "", number

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        version: int = 5,
        group_id: str = GROUP,
    ) -> int:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[SyncGroupRequestAssignment(key, value) for key, value in (assignments or {}).items()],
        )
        return self.call(sync_group, request, version)

    def heartbeat(
        self, member_id: str, generation: int, *, instance_id: str | None = None, group_id: str = GROUP
    ) -> int:
        """The error code that a heartbeat gets."""
        request = HeartbeatRequest(group_id, generation, member_id, instance_id)
        return self.answers[self.call(heartbeat, request, 4)].error_code  # type: ignore[no-any-return]

    def leave(self, *members: str | tuple[str, str], group_id: str = GROUP, version: int = 5) -> int:
        """Members by id, or by (id, instance id)."""
        identities = [
            MemberIdentity(member) if isinstance(member, str) else MemberIdentity(member[0], member[1])
            for member in members
        ]
        request = LeaveGroupRequest(group_id, member_id=identities[0].member_id, members=identities)
        return self.call(leave_group, request, version)

    def stable_group(self, members: int = 1, **how: Any) -> list[str]:
        """A group whose members have joined and know their assignment; the first leads."""
        ids: list[str] = []
        numbers: list[int] = []
        for _ in range(members):
            for known in ids:
                # Those that are in must join again for the newcomer.
                self.heartbeat(known, 0)
            member_id, number = self.new_member(**how)
            numbers = [self.join(known, **how) if self.waits(number) else 0 for known in ids] + [number]
            ids.append(member_id or self.answers[number].member_id)
        generation = self.answers[numbers[-1]].generation_id
        leader = self.answers[numbers[-1]].leader
        given = {member: f"part of {member}".encode() for member in ids}
        protocol = self.answers[numbers[-1]].protocol_name
        type_ = how.get("protocol_type", "consumer")
        for member in sorted(ids, key=lambda member: member == leader):
            self.sync(
                member, generation, given if member == leader else None, protocol_name=protocol, protocol_type=type_
            )
        return ids

    def waits(self, number: int) -> bool:
        return number not in self.answers


def key_values(records: Sequence[Record]) -> dict[Any, Any]:
    """What compaction leaves of records: the newest value of each key."""
    newest: dict[Any, Any] = {}
    for record in records:
        assert isinstance(record, GroupRecord)
        newest[codec.encode_key(record)] = record.value
    return newest
