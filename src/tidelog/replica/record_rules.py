"""What a topic's settings ask of single records: keys where it is compacted, timestamps that are near the clock.

Called by the leader and its rewriter, only for batches that may break a rule; who is refused is told which records did
(KIP-467), in Apache Kafka's words.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.produce import BatchIndexAndErrorMessage
from tidelog.wire.records import Record, read_records

NO_TIMESTAMP = -1
# A sentence does not name more of them.
NAMED_MAX = 3


class RecordsRefused(ProtocolError):
    """A batch that is refused because of some of its records."""

    def __init__(self, code: ErrorCode, message: str, records: list[BatchIndexAndErrorMessage]) -> None:
        super().__init__(code, message)
        self.records = records


def check_keys(batch: memoryview, partition: str) -> None:
    """Refuse a batch for a compacted topic with a record that has no key."""
    reason = f"Compacted topic cannot accept message without key in topic partition {partition}"
    records = read_records(batch, check_crc=False)
    refused = [BatchIndexAndErrorMessage(index, reason) for index, record in enumerate(records) if record.key is None]
    if refused:
        named = ", ".join(
            f"RecordError(batchIndex={each.batch_index}, message='{reason}')" for each in refused[:NAMED_MAX]
        )
        raise RecordsRefused(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {len(refused)} record errors in total, and only showing the"
            f" first three errors at most: [{named}]",
            refused,
        )


def check_timestamps(batch: memoryview, now_ms: int, before_max_ms: int, after_max_ms: int) -> None:
    """Refuse a batch with a record whose timestamp is too far from the clock (KIP-937); -1 is no timestamp."""
    earliest_ms, latest_ms = now_ms - before_max_ms, now_ms + after_max_ms

    def is_out_of_range(record: Record) -> bool:
        return record.timestamp != NO_TIMESTAMP and not earliest_ms <= record.timestamp <= latest_ms

    refused = [
        BatchIndexAndErrorMessage(
            index,
            f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. The timestamp should"
            f" be within [{earliest_ms}, {latest_ms}]",
        )
        for index, record in enumerate(read_records(batch, check_crc=False))
        if is_out_of_range(record)
    ]
    if refused:
        raise RecordsRefused(
            ErrorCode.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp", refused
        )
