"""What one partition's log needs to know of its topic's settings, and its limits.

Filled by the broker from the topic's settings; defaults are those of Apache Kafka 4.2. Nothing here is read from a
file.
"""

from __future__ import annotations

from typing import Final

import msgspec

DAY_MS: Final = 24 * 60 * 60 * 1000
NEVER: Final = 2**63 - 1


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Settings of one log. Times in milliseconds, sizes in bytes; -1 stands for "no limit" in retention."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * DAY_MS
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    producer_expiration_ms: int = DAY_MS
    # cleanup.policy: offsets of a compacted log have gaps, and only a "delete" policy lets retention take segments.
    compacted: bool = False
    deletes_old_segments: bool = True
    # Segments that retention lets go wait for `log/archive.py` instead of being removed.
    archives: bool = False
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
