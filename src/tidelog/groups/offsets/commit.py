"""OffsetCommit (key 8), v2-v10, and TxnOffsetCommit (key 28), v0-v5: note how far a group has come.

Members commit with their generation; who is none (generation -1, no member id) may do so while the group is empty.
A member of a consumer group that has not heard of its newest epoch yet may commit what has been its own since the one
that it knows (KIP-1251). Offsets of a transaction are pending until its end.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.groups.calls import Caller, Outcome, Reply
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.rebalance import restart_session
from tidelog.groups.classic.states import State
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.member import ConsumerMember
from tidelog.groups.records import EndTransaction, Record, offset_commit
from tidelog.groups.shard import GroupShard
from tidelog.machine.runtime import Result
from tidelog.metadata.image import TopicImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP, PartitionIndex, ProducerEpoch, ProducerId
from tidelog.wire.messages.group_records import OffsetCommitValue
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

# From this version on an unknown group is called that; before, the generation is called wrong.
GROUP_NOT_FOUND_VERSION: Final = 9
# From this version on members of consumer groups can name their epoch.
MEMBER_EPOCH_VERSION: Final = 9
# From this version on topics are named by their id.
TOPIC_ID_VERSION: Final = 10


class Committer(NamedTuple):
    """Who commits, as both requests say it."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    transactional: bool

    @property
    def is_member(self) -> bool:
        """Whether it says that it belongs to the group."""
        return self.generation >= 0 or bool(self.member_id) or self.instance_id is not None

    @classmethod
    def of(cls, request: OffsetCommitRequest) -> Committer:
        generation = request.generation_id_or_member_epoch
        return cls(request.group_id, request.member_id, request.group_instance_id, generation, transactional=False)


class Permit(NamedTuple):
    """What a committer may: everything (no error), nothing, or as a late member only what it owned all the time."""

    error: ErrorCode
    late: ConsumerMember | None = None
    epoch: int = -1

    def check(self, topic: TopicImage | None, partition: int) -> ErrorCode:
        late = self.late
        if late is not None and topic is not None and late.has_owned(topic.topic_id, partition, self.epoch):
            return ErrorCode.NONE
        return self.error


GRANTED: Final = Permit(ErrorCode.NONE)


def commit_offsets(shard: GroupShard, request: OffsetCommitRequest, caller: Caller, now_ms: int) -> Outcome:
    """Commit offsets; they count when the answer is given."""
    committer = Committer.of(request)
    permit = check_committer(shard, committer, caller.version)
    if permit is GRANTED:
        show_life(shard, committer, now_ms)
    # Only v2-v4 can ask for a retention of their own.
    expire_ms = NO_TIMESTAMP if request.retention_time_ms < 0 else now_ms + request.retention_time_ms
    records: list[Record] = []
    topics: list[OffsetCommitResponseTopic] = []
    by_id = caller.version >= TOPIC_ID_VERSION
    for topic in request.topics:
        image = shard.image.topic_by_id(topic.topic_id) if by_id else shard.image.topic(topic.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions: list[OffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            index, metadata = partition.partition_index, partition.committed_metadata or ""
            error = permit.check(image, index) or check_partition(shard, image, unknown, index, metadata)
            partitions.append(OffsetCommitResponsePartition(index, error))
            if error is ErrorCode.NONE:
                assert image is not None
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms,
                    expire_timestamp=expire_ms,
                    topic_id=topic.topic_id,
                )
                records.append(offset_commit(request.group_id, image.name, index, value))
        topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions))
    # However many partitions there are: each commit counts alone.
    return Result(records, (Reply(caller.waiter, OffsetCommitResponse(topics=topics)),), atomic=False)


def commit_transaction_offsets(
    shard: GroupShard, request: TxnOffsetCommitRequest, caller: Caller, now_ms: int
) -> Outcome:
    """Commit offsets as part of a transaction. That the producer may do so is for the transaction's side to know."""
    committer = Committer(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id, transactional=True
    )
    permit = Permit(ErrorCode.INVALID_GROUP_ID)
    if request.group_id:
        permit = check_committer(shard, committer, caller.version)
    producer_id, producer_epoch = ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)
    records: list[Record] = []
    topics: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        image = shard.image.topic(topic.name)
        partitions: list[TxnOffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            index, metadata = partition.partition_index, partition.committed_metadata or ""
            error = permit.check(image, index) or check_partition(
                shard, image, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, index, metadata
            )
            partitions.append(TxnOffsetCommitResponsePartition(index, error))
            if error is ErrorCode.NONE:
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms,
                )
                records.append(offset_commit(request.group_id, topic.name, index, value, producer_id, producer_epoch))
        topics.append(TxnOffsetCommitResponseTopic(topic.name, partitions))
    return Result(records, (Reply(caller.waiter, TxnOffsetCommitResponse(topics=topics)),), atomic=False)


def end_transaction(shard: GroupShard, marker: EndTransaction) -> Result[Record, None]:
    """Write the marker with which the transaction coordinator ends a transaction in this partition."""
    return Result([marker], None)


def check_committer(shard: GroupShard, committer: Committer, version: int) -> Permit:
    """What someone may commit of its group's offsets now."""
    group = shard.groups.get(committer.group_id)
    if isinstance(group, ClassicGroup):
        return _permit(_check_classic(group, committer))
    if group is not None:
        return _check_consumer(group, committer, version)
    if committer.generation < 0:
        return GRANTED
    if version >= GROUP_NOT_FOUND_VERSION and not committer.transactional:
        return Permit(ErrorCode.GROUP_ID_NOT_FOUND)
    return Permit(ErrorCode.ILLEGAL_GENERATION)


def _permit(error: ErrorCode) -> Permit:
    return GRANTED if error is ErrorCode.NONE else Permit(error)


def _check_consumer(group: ConsumerGroup, committer: Committer, version: int) -> Permit:
    if committer.generation < 0 and not group.members:
        return GRANTED
    if committer.transactional and not committer.is_member:
        return GRANTED
    member = group.members.get(committer.member_id)
    if member is None:
        return Permit(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.classic is None and not committer.transactional and version < MEMBER_EPOCH_VERSION:
        return Permit(ErrorCode.UNSUPPORTED_VERSION)
    if committer.generation == member.epoch:
        return GRANTED
    is_new = member.classic is None and not committer.transactional
    error = ErrorCode.STALE_MEMBER_EPOCH if is_new else ErrorCode.ILLEGAL_GENERATION
    return Permit(error, member, committer.generation)


def _check_classic(group: ClassicGroup, committer: Committer) -> ErrorCode:
    if committer.generation < 0 and group.state is State.EMPTY:
        return ErrorCode.NONE
    if committer.is_member:
        error = group.check_member(committer.member_id, committer.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if committer.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif not committer.transactional:
        # Old versions of a transactional commit cannot say who they are.
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is State.COMPLETING_REBALANCE and not committer.transactional:
        # It knows the generation, but not yet what it owns in it.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def show_life(shard: GroupShard, committer: Committer, now_ms: int) -> None:
    """A commit is as good as a heartbeat."""
    group = shard.groups.get(committer.group_id)
    if isinstance(group, ClassicGroup) and group.state in (State.STABLE, State.PREPARING_REBALANCE):
        restart_session(shard, group.members[committer.member_id], now_ms)


def check_partition(
    shard: GroupShard, topic: TopicImage | None, unknown: ErrorCode, partition: int, metadata: str
) -> ErrorCode:
    """Whether there is such a partition, and what is said of it is not too long."""
    if topic is None:
        return unknown
    if PartitionIndex(partition) not in topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(metadata) > shard.settings.offset_metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE
