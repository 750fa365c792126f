"""Requests of a transactional producer to its coordinators, and what their answers say went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.client.core.groups import CommittedOffset
from tidelog.client.core.offsets import by_topic
from tidelog.client.core.transaction import GroupMetadata
from tidelog.client.errors import check
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ProducerEpoch, ProducerId, TopicPartition
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

# Later versions are for brokers among themselves.
ADD_BY_CLIENT_VERSION: Final = 3
# The last versions before the coordinator begins an epoch with each transaction (KIP-890).
END_WITHOUT_EPOCH_VERSION: Final = 4
OFFSETS_AFTER_ADD_VERSION: Final = 4


def add_partitions(
    transactional_id: str, producer_id: ProducerId, epoch: ProducerEpoch, partitions: Iterable[TopicPartition]
) -> AddPartitionsToTxnRequest:
    topics = [
        AddPartitionsToTxnTopic(name, [int(index) for index, _ in rows])
        for name, rows in by_topic(dict.fromkeys(partitions)).items()
    ]
    return AddPartitionsToTxnRequest([], transactional_id, producer_id, epoch, topics)


def partitions_error(answer: AddPartitionsToTxnResponse) -> None:
    """Raise what hinders the partitions; one that only another hindered says less than that other."""
    codes = [
        partition.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    ]
    telling = [code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)]
    check(telling[0] if telling else max(codes, default=0))


def commit_offsets(
    transactional_id: str,
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id,
        group.group_id,
        producer_id,
        epoch,
        group.generation,
        group.member_id,
        group.group_instance_id,
        [
            TxnOffsetCommitRequestTopic(
                name,
                [
                    TxnOffsetCommitRequestPartition(index, wanted.offset, wanted.leader_epoch, wanted.metadata)
                    for index, wanted in rows
                ],
            )
            for name, rows in by_topic(offsets).items()
        ],
    )


def offsets_error(answer: TxnOffsetCommitResponse) -> None:
    for topic in answer.topics:
        for partition in topic.partitions:
            check(partition.error_code)
