"""What an operator may set for groups, with Kafka's defaults. The edge fills it from the node's properties."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

INT32_MAX = 2**31 - 1


class MigrationPolicy(Enum):
    """Which way a group with members may change its protocol (group.consumer.migration.policy)."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one coordinator; the comment names the property."""

    # group.min.session.timeout.ms, group.max.session.timeout.ms
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    # group.initial.rebalance.delay.ms: how long the first member of an empty group waits for others.
    initial_rebalance_delay_ms: int = 3_000
    # group.max.size
    group_size_max: int = INT32_MAX
    # A member that never had an id cannot heartbeat while its JoinGroup waits, so this is all the time it gets.
    new_member_join_timeout_ms: int = 300_000
    # offset.metadata.max.bytes
    offset_metadata_bytes_max: int = 4_096
    # offsets.retention.minutes, offsets.retention.check.interval.ms
    offsets_retention_ms: int = 7 * 24 * 60 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    # group.consumer.session.timeout.ms, group.consumer.heartbeat.interval.ms, group.consumer.max.size
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_group_size_max: int = INT32_MAX
    # group.consumer.assignors: names, the first is the default.
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    # group.consumer.regex.refresh.interval.ms
    consumer_regex_refresh_interval_ms: int = 600_000
    # group.consumer.migration.policy
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
