"""How long things are measured: the full run, for figures; the quick one, for a look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    warm_up_seconds_max: float
    pipelined_seconds: float
    curve_seconds: float
    # For each of some kinds of load that take turns, tenth of a second by tenth of a second.
    compared_seconds: float
    latency_seconds: float
    synced_seconds: float
    java_records: int
    librdkafka_megabytes: int
    librdkafka_small_megabytes: int
    curve_ends_only: bool
    profile_seconds: float
    # For the middling of the Python clients; the quick ones get more, the slow ones less.
    client_records: int
    # As many as course notes have it: five million.
    perf_records: int
    recovery_mebibytes: int
    compaction_mebibytes: int
    lookup_mebibytes_max: int
    cluster_warm_up_megabytes: int
    cluster_megabytes: int
    cluster_idle_seconds: float


FULL: Final = Plan(
    rounds=3,
    warm_up_seconds_max=45.0,
    pipelined_seconds=5.0,
    curve_seconds=1.5,
    compared_seconds=12.0,
    latency_seconds=6.0,
    synced_seconds=4.0,
    java_records=1_500_000,
    librdkafka_megabytes=1500,
    librdkafka_small_megabytes=300,
    curve_ends_only=False,
    profile_seconds=8.0,
    client_records=1_000_000,
    perf_records=5_000_000,
    recovery_mebibytes=2000,
    compaction_mebibytes=1024,
    lookup_mebibytes_max=10240,
    # No more than the page cache takes without making writers wait for the disk.
    cluster_warm_up_megabytes=600,
    cluster_megabytes=600,
    cluster_idle_seconds=10.0,
)
QUICK: Final = Plan(
    rounds=1,
    warm_up_seconds_max=15.0,
    pipelined_seconds=3.0,
    curve_seconds=1.0,
    compared_seconds=3.0,
    latency_seconds=3.0,
    synced_seconds=2.0,
    java_records=500_000,
    librdkafka_megabytes=500,
    librdkafka_small_megabytes=100,
    curve_ends_only=True,
    profile_seconds=3.0,
    client_records=200_000,
    perf_records=500_000,
    recovery_mebibytes=512,
    compaction_mebibytes=200,
    lookup_mebibytes_max=1024,
    cluster_warm_up_megabytes=300,
    cluster_megabytes=300,
    cluster_idle_seconds=5.0,
)
