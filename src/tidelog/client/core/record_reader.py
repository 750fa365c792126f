"""From the bytes of a fetch to records: skips what lies before the position, control batches and aborted transactions.

Called for every partition of an answer; a broker may send batches that begin earlier than asked
for, and cut the last one off.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.client.core.chunk import FetchedChunk
from tidelog.client.core.record import ConsumerRecord
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, Offset, TopicPartition
from tidelog.wire.batch import Buffer, iter_headers
from tidelog.wire.control import ControlType, read_control_type
from tidelog.wire.messages.fetch import AbortedTransaction
from tidelog.wire.records import body_of, read_records, walk_records


class ReadRecords(NamedTuple):
    """Records of one partition, and where to go on."""

    records: list[ConsumerRecord]
    next_offset: Offset


def read_partition(
    partition: TopicPartition,
    buffer: Buffer,
    position: Offset,
    aborted: Iterable[AbortedTransaction] | None = None,
    *,
    check_crcs: bool = True,
) -> ReadRecords:
    """Decode what was fetched from a position. `aborted` comes with an answer to a fetch of committed records.

    ProtocolError for bytes that are no record batches.
    """
    records: list[ConsumerRecord] = []
    view = memoryview(buffer)
    waiting = sorted(aborted or (), key=lambda transaction: transaction.first_offset, reverse=True)
    aborting: set[int] = set()
    for start, header in iter_headers(buffer):
        if header.last_offset < position:
            continue
        while waiting and waiting[-1].first_offset <= header.last_offset:
            aborting.add(waiting.pop().producer_id)
        if header.is_control:
            if header.producer_id in aborting and _ends_in_abort(buffer, start):
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            records += walk_records(
                body_of(view, header, start, check_crc=check_crcs),
                header.records_count,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp if header.is_log_append_time else None,
                position,
                ConsumerRecord,
                partition.topic,
                partition.partition,
                header.leader_epoch if header.leader_epoch >= 0 else None,
            )
        position = header.next_offset
    return ReadRecords(records, position)


def read_chunk(chunk: FetchedChunk, check_crcs: bool = True) -> ReadRecords:
    """Decode what a fetch brought."""
    return read_partition(chunk.partition, chunk.data, chunk.position, chunk.aborted, check_crcs=check_crcs)


def end_of(data: Buffer, position: Offset) -> tuple[Offset, LeaderEpoch]:
    """Where to go on after what was fetched from a position, and the epoch of the last batch before that.

    The position itself when no batch is whole.
    """
    epoch = NO_EPOCH
    for _, header in iter_headers(data):
        if header.last_offset >= position:
            position = header.next_offset
            epoch = LeaderEpoch(header.leader_epoch)
    return position, epoch


def _ends_in_abort(buffer: Buffer, start: int) -> bool:
    return any(read_control_type(record) == ControlType.ABORT for record in read_records(buffer, start))
