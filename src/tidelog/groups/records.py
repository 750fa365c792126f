"""The records of `__consumer_offsets` as commands return them and `replay` takes them.

One result holds records of one producer: those of a transaction are written as a transactional batch, and count only
when an `EndTransaction`, written as a control batch, says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from tidelog.model.ids import NO_PRODUCER, ProducerEpoch, ProducerId
from tidelog.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tidelog.wire.schema import Message

NO_PRODUCER_EPOCH = ProducerEpoch(-1)


class GroupRecord(NamedTuple):
    """A key and its newest value; None deletes the key. Of a transaction when it has a producer."""

    key: Message
    value: Message | None
    producer_id: ProducerId = NO_PRODUCER
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


class EndTransaction(NamedTuple):
    """A producer's transaction ends here: what it committed counts, or never will."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    committed: bool


Record: TypeAlias = GroupRecord | EndTransaction


def group_metadata(group_id: str, value: GroupMetadataValue | None) -> GroupRecord:
    return GroupRecord(GroupMetadataKey(group=group_id), value)


def offset_tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    return GroupRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def offset_commit(
    group_id: str,
    topic: str,
    partition: int,
    value: OffsetCommitValue,
    producer_id: ProducerId = NO_PRODUCER,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
) -> GroupRecord:
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return GroupRecord(key, value, producer_id, producer_epoch)


def keys_of(records: Iterable[Record]) -> list[Message]:
    """The keys that records set or delete, in order."""
    return [record.key for record in records if isinstance(record, GroupRecord)]
