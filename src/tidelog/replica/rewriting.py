"""The slow way in: batches of topics whose settings ask for more than the bytes as they came (log append time, a
compression of the broker's choosing, keys that compaction needs). Used by the leader; all other topics never decode a
record.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.ids import ProducerEpoch, ProducerId
from tidelog.model.topic_settings import TopicConfig
from tidelog.replica.record_rules import check_keys
from tidelog.wire.batch import BatchHeader, read_header, write_log_append_time
from tidelog.wire.compression import Compression
from tidelog.wire.records import build_batch, read_records

COMPRESSIONS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class BatchRewriter:
    """Makes of a checked batch what the topic's settings ask for."""

    __slots__ = ("_compression", "_level", "_needs_keys", "_partition", "_stamps_time")

    def __init__(self, config: TopicConfig, partition: str) -> None:
        self._partition = partition
        self._stamps_time = config.message_timestamp_type == "LogAppendTime"
        self._needs_keys = "compact" in config.cleanup_policy
        self._compression = COMPRESSIONS.get(config.compression_type)
        self._level = {
            Compression.GZIP: config.compression_gzip_level,
            Compression.LZ4: config.compression_lz4_level,
            Compression.ZSTD: config.compression_zstd_level,
        }.get(self._compression or Compression.NONE)

    @classmethod
    def for_topic(cls, config: TopicConfig, partition: str) -> BatchRewriter | None:
        """None for the usual topic, whose batches are stored as they come."""
        rewriter = cls(config, partition)
        if rewriter._stamps_time or rewriter._needs_keys or rewriter._compression is not None:
            return rewriter
        return None

    @property
    def stamps_time(self) -> bool:
        return self._stamps_time

    def rewrite(self, header: BatchHeader, batch: memoryview, now_ms: int) -> tuple[BatchHeader, memoryview]:
        if self._needs_keys:
            check_keys(batch, self._partition)
        if self._compression is not None and header.compression != self._compression:
            batch = memoryview(
                bytearray(
                    build_batch(
                        read_records(batch, check_crc=False),
                        compression=self._compression,
                        compression_level=self._level,
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
