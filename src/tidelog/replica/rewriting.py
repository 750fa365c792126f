"""The slow way in: batches of topics whose settings ask for more than the bytes as they came (log append time, a
compression of the broker's choosing, keys that compaction needs). Used by the leader; all other topics never decode a
record.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import ProducerEpoch, ProducerId
from tidelog.model.topic_settings import TopicConfig
from tidelog.wire.batch import BatchHeader, read_header, write_log_append_time
from tidelog.wire.compression import Compression
from tidelog.wire.records import build_batch, indexes_without_key, read_records

COMPRESSIONS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class BatchRewriter:
    """Makes of a checked batch what the topic's settings ask for."""

    __slots__ = ("_compression", "_needs_keys", "_stamps_time")

    def __init__(self, config: TopicConfig) -> None:
        self._stamps_time = config.message_timestamp_type == "LogAppendTime"
        self._needs_keys = "compact" in config.cleanup_policy
        self._compression = COMPRESSIONS.get(config.compression_type)

    @classmethod
    def for_topic(cls, config: TopicConfig) -> BatchRewriter | None:
        """None for the usual topic, whose batches are stored as they come."""
        rewriter = cls(config)
        if rewriter._stamps_time or rewriter._needs_keys or rewriter._compression is not None:
            return rewriter
        return None

    @property
    def stamps_time(self) -> bool:
        return self._stamps_time

    def rewrite(self, header: BatchHeader, batch: memoryview, now_ms: int) -> tuple[BatchHeader, memoryview]:
        if self._needs_keys:
            _check_keys(batch)
        if self._compression is not None and header.compression != self._compression:
            batch = memoryview(
                bytearray(
                    build_batch(
                        read_records(batch, check_crc=False),
                        compression=self._compression,
                        producer_id=ProducerId(header.producer_id),
                        producer_epoch=ProducerEpoch(header.producer_epoch),
                        base_sequence=header.base_sequence,
                        is_transactional=header.is_transactional,
                    )
                )
            )
            header = read_header(batch)
        if self._stamps_time:
            header = write_log_append_time(batch, now_ms)
        return header, batch


def _check_keys(batch: memoryview) -> None:
    keyless = indexes_without_key(batch)
    if keyless:
        raise ProtocolError(
            ErrorCode.INVALID_RECORD,
            f"Compacted topic cannot accept message without key: record {keyless[0]} of the batch has none.",
        )
