"""Logs for the partitions that this broker is told to hold: found in its directories or made, with their topics'
settings."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.logs import log
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.errors import LogFailed
from tidelog.log.partition import PartitionLog
from tidelog.metadata.image import ClusterImage
from tidelog.model.ids import Offset, TopicId, TopicPartition
from tidelog.model.topic_settings import TopicConfig


def log_config(config: TopicConfig, producer_expiration_ms: int, *, archives: bool = False) -> LogConfig:
    """What the log needs to know of its topic's settings."""
    return LogConfig(
        segment_bytes=config.roll_bytes,
        segment_ms=min(config.segment_ms, config.max_compaction_lag_ms) if config.is_compacted else config.segment_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        file_delete_delay_ms=config.file_delete_delay_ms,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        producer_expiration_ms=producer_expiration_ms,
        compacted=config.is_compacted,
        deletes_old_segments=config.is_deleted,
        archives=archives,
        delete_retention_ms=config.delete_retention_ms,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
    )


class PartitionLogs:
    def __init__(
        self, directories: LogDirectories, producer_expiration_ms: int, archives: Callable[[str], bool]
    ) -> None:
        self._directories = directories
        self._producer_expiration_ms = producer_expiration_ms
        self._archives = archives

    def config_of(self, topic: str, config: TopicConfig) -> LogConfig:
        """What the logs of a topic are to do."""
        return log_config(config, self._producer_expiration_ms, archives=self._archives(topic))

    def get_or_create(self, partition: TopicPartition, topic_id: TopicId, config: TopicConfig) -> PartitionLog:
        """Raises LogFailed when no directory takes the partition."""
        settings = self.config_of(partition.topic, config)
        found = self._directories.get(partition)
        if found is not None and found.topic_id not in (None, topic_id):
            # What a crash left of an older topic of the same name.
            self._directories.delete(partition)
            found = None
        if found is None:
            try:
                return self._directories.create(partition, settings, topic_id)
            except LogFailed as failure:
                log.error(
                    "a partition cannot be made; it is tried again", partition=str(partition), reason=str(failure)
                )
                raise
        found.configure(settings)
        found.assign_topic_id(topic_id)
        return found

    def high_watermark(self, partition: TopicPartition) -> Offset:
        """As it was last written down; 0 for a new partition."""
        return self._directories.high_watermarks.get(partition, Offset(0))

    def reconfigure(self, partition: TopicPartition, config: TopicConfig) -> None:
        found = self._directories.get(partition)
        if found is not None:
            found.configure(self.config_of(partition.topic, config))

    def delete(self, partition: TopicPartition) -> None:
        if self._directories.get(partition) is None:
            return
        try:
            self._directories.delete(partition)
        except LogFailed as failure:
            log.error("a deleted partition's files remain", partition=str(partition), reason=str(failure))

    def warn_of_strays(self, image: ClusterImage) -> None:
        """Say which partitions belong to no topic. They are kept: rather a leftover than lost data."""
        for partition, found in self._directories.partitions().items():
            topic = image.topic(partition.topic)
            if topic is None or found.topic_id not in (None, topic.topic_id):
                log.warning("a partition on disk belongs to no topic", partition=str(partition), folder=found.directory)
