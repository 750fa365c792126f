"""Every setting of a topic, and `TopicConfig`: their values for one topic, as the log and the broker use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.settings import (
    Pattern,
    Range,
    Setting,
    SettingType,
    SettingValue,
    at_least,
    one_of,
    parse_value,
    table,
)

BOOLEAN, STRING, INT, LONG = SettingType.BOOLEAN, SettingType.STRING, SettingType.INT, SettingType.LONG
DOUBLE, LIST = SettingType.DOUBLE, SettingType.LIST

FOREVER: Final = "9223372036854775807"
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
UNLIMITED: Final = -1

CLEANUP_POLICY: Final = one_of("compact", "delete")
COMPRESSION_TYPE: Final = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
GZIP_LEVEL: Final = Range(1, 9, also=-1)
LZ4_LEVEL: Final = Range(1, 17)
ZSTD_LEVEL: Final = Range(-131072, 22)
TIMESTAMP_TYPE: Final = one_of("CreateTime", "LogAppendTime")
SEGMENT_BYTES_MIN: Final = 1024 * 1024
THROTTLED_REPLICAS: Final = Pattern(r"\*|[0-9]+:[0-9]+", "[partitionId]:[brokerId],[partitionId]:[brokerId],...")


def _from(*names: str) -> tuple[tuple[str, int], ...]:
    return tuple((name, 1) for name in names)


TOPIC_SETTINGS: Final = table(
    [
        Setting(
            "cleanup.policy", LIST, "delete", CLEANUP_POLICY,
            "Old segments are deleted, or compacted to the last value of each key, or both; empty keeps everything.",
            synonyms=_from("log.cleanup.policy"),
        ),
        Setting(
            "compression.gzip.level", INT, "-1", GZIP_LEVEL, "Level for compression.type=gzip; -1 is zlib's default.",
            synonyms=_from("compression.gzip.level"),
        ),
        Setting(
            "compression.lz4.level", INT, "9", LZ4_LEVEL, "Level for compression.type=lz4.",
            synonyms=_from("compression.lz4.level"),
        ),
        Setting(
            "compression.type", STRING, "producer", COMPRESSION_TYPE,
            "How batches are stored; 'producer' keeps what each producer sent.",
            synonyms=_from("compression.type"),
        ),
        Setting(
            "compression.zstd.level", INT, "3", ZSTD_LEVEL, "Level for compression.type=zstd.",
            synonyms=_from("compression.zstd.level"),
        ),
        Setting(
            "delete.retention.ms", LONG, "86400000", at_least(0),
            "How long compaction keeps tombstones, so that a consumer that began at the start sees every deletion.",
            synonyms=_from("log.cleaner.delete.retention.ms"),
        ),
        Setting(
            "file.delete.delay.ms", LONG, "60000", at_least(0),
            "How long a file stays on disk after its segment left the log.",
            synonyms=_from("log.segment.delete.delay.ms"),
        ),
        Setting(
            "flush.messages", LONG, FOREVER, at_least(1), "After how many records the log is forced to disk.",
            synonyms=_from("log.flush.interval.messages"),
        ),
        Setting(
            "flush.ms", LONG, FOREVER, at_least(0), "How long a record may wait before the log is forced to disk.",
            synonyms=_from("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        ),
        Setting(
            "follower.replication.throttled.replicas", LIST, "", THROTTLED_REPLICAS,
            "Replicas whose followers are throttled, or * for all.",
        ),
        Setting(
            "index.interval.bytes", INT, "4096", at_least(0), "An index entry is written after about this many bytes.",
            synonyms=_from("log.index.interval.bytes"),
        ),
        Setting(
            "leader.replication.throttled.replicas", LIST, "", THROTTLED_REPLICAS,
            "Replicas whose leaders are throttled, or * for all.",
        ),
        Setting(
            "local.retention.bytes", LONG, "-2", at_least(-2),
            "How much stays on local disk with tiered storage; -2 is retention.bytes.",
            synonyms=_from("log.local.retention.bytes"),
        ),
        Setting(
            "local.retention.ms", LONG, "-2", at_least(-2),
            "How long data stays on local disk with tiered storage; -2 is retention.ms.",
            synonyms=_from("log.local.retention.ms"),
        ),
        Setting(
            "max.compaction.lag.ms", LONG, FOREVER, at_least(1), "After this time a record is compacted in any case.",
            synonyms=_from("log.cleaner.max.compaction.lag.ms"),
        ),
        Setting(
            "max.message.bytes", INT, "1048588", at_least(0), "The largest record batch that is accepted, compressed.",
            synonyms=_from("message.max.bytes"),
        ),
        Setting(
            "message.timestamp.after.max.ms", LONG, "3600000", at_least(0),
            "How far a record's timestamp may be ahead of the broker's clock.",
            synonyms=_from("log.message.timestamp.after.max.ms"),
        ),
        Setting(
            "message.timestamp.before.max.ms", LONG, FOREVER, at_least(0),
            "How far a record's timestamp may be behind the broker's clock.",
            synonyms=_from("log.message.timestamp.before.max.ms"),
        ),
        Setting(
            "message.timestamp.type", STRING, "CreateTime", TIMESTAMP_TYPE,
            "Whether records keep their producer's time or get the broker's.",
            synonyms=_from("log.message.timestamp.type"),
        ),
        Setting(
            "min.cleanable.dirty.ratio", DOUBLE, "0.5", Range(0, 1),
            "Which share of the log must be new before it is compacted.",
            synonyms=_from("log.cleaner.min.cleanable.ratio"),
        ),
        Setting(
            "min.compaction.lag.ms", LONG, "0", at_least(0), "How long a record is safe from compaction.",
            synonyms=_from("log.cleaner.min.compaction.lag.ms"),
        ),
        Setting(
            "min.insync.replicas", INT, "1", at_least(1),
            "With fewer replicas in sync a write with acks=all is refused.",
            synonyms=_from("min.insync.replicas"),
        ),
        Setting(
            "preallocate", BOOLEAN, "false", None, "Reserve a segment's whole size on disk when it is created.",
            synonyms=_from("log.preallocate"),
        ),
        Setting("remote.log.copy.disable", BOOLEAN, "false", None, "Tiered storage: copy no more segments."),
        Setting("remote.log.delete.on.disable", BOOLEAN, "false", None, "Tiered storage: delete when switched off."),
        Setting("remote.storage.enable", BOOLEAN, "false", None, "Tiered storage: keep old segments remotely."),
        Setting(
            "retention.bytes", LONG, "-1", None,
            "How large a partition may become before its oldest segments are deleted; -1 is no limit.",
            synonyms=_from("log.retention.bytes"),
        ),
        Setting(
            "retention.ms", LONG, "604800000", at_least(-1),
            "How long records are kept before their segment is deleted; -1 is for ever.",
            synonyms=(("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)),
        ),
        Setting(
            "segment.bytes", INT, "1073741824", at_least(SEGMENT_BYTES_MIN),
            "How large a segment becomes before a new one is begun.",
            synonyms=_from("log.segment.bytes"),
        ),
        Setting(
            "segment.index.bytes", INT, "10485760", at_least(4), "How large a segment's offset index may become.",
            synonyms=_from("log.index.size.max.bytes"),
        ),
        Setting(
            "segment.jitter.ms", LONG, "0", at_least(0),
            "By up to how much a segment is rolled early, so that not all partitions roll at once.",
            synonyms=(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
        ),
        Setting(
            "segment.ms", LONG, "604800000", at_least(1), "After this time a new segment is begun, full or not.",
            synonyms=(("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
        ),
        Setting(
            "unclean.leader.election.enable", BOOLEAN, "false", None,
            "Whether a replica that is behind may become leader when no other is left, at the price of lost records.",
            synonyms=_from("unclean.leader.election.enable"),
        ),
        Setting("internal.segment.bytes", INT, None, at_least(1), "Segments smaller than allowed.", is_internal=True),
    ]
)  # fmt: skip


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The settings of one topic: the broker's defaults with the topic's own values over them."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    internal_segment_bytes: int | None
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """True where old segments are deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def is_log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def roll_bytes(self) -> int:
        """The size at which a segment is rolled."""
        return self.internal_segment_bytes or self.segment_bytes


def topic_defaults(broker_values: Mapping[str, SettingValue]) -> TopicConfig:
    """What a topic without settings of its own gets, from a broker's values by name."""
    values: dict[str, Any] = {}
    for setting in TOPIC_SETTINGS.values():
        value = parse_value(setting, setting.default)
        for name, factor in setting.synonyms:
            found = broker_values.get(name)
            if found is not None:
                value = found * factor if isinstance(found, int) and factor != 1 else found
                break
        values[setting.field] = value
    values["retention_ms"] = max(values["retention_ms"], UNLIMITED)  # Any negative time is for ever, in every unit.
    return TopicConfig(**values)


def parse_topic_overrides(overrides: Mapping[str, str | None]) -> dict[str, SettingValue]:
    """Read a topic's own settings as somebody asks for them, or raise INVALID_CONFIG for the first that cannot be."""
    values: dict[str, SettingValue] = {}
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        if text is None:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        values[name] = parse_value(setting, text)
    return values


def topic_config(defaults: TopicConfig, overrides: Mapping[str, str]) -> TopicConfig:
    """Lay a topic's own settings over the defaults. Names that a newer version wrote are passed over."""
    known = {name: text for name, text in overrides.items() if name in TOPIC_SETTINGS}
    if not known:
        return defaults
    fields = {TOPIC_SETTINGS[name].field: value for name, value in parse_topic_overrides(known).items()}
    return msgspec.structs.replace(defaults, **fields)


def check_topic_config(config: TopicConfig) -> None:
    """Refuse settings that each alone are fine and together are not."""
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ProtocolError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({config.min_compaction_lag_ms}) > "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms})",
        )
    if config.remote_storage_enable:
        raise ProtocolError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
