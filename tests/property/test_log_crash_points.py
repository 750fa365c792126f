"""Power is lost at every single operation of a workload, and again while the log recovers from that."""

from __future__ import annotations

import pytest

from harness.log_workload import crash_and_check, operations_of_workload

OPERATIONS = operations_of_workload()
SHARDS = 8
SEEDS = 8


@pytest.mark.req("C9", "C10", "B9")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_whatever_operation_is_the_last_one_nothing_flushed_is_lost_and_the_log_is_valid(shard: int) -> None:
    assert OPERATIONS * SEEDS > 3000
    for crash_at in range(1 + shard, OPERATIONS + 1, SHARDS):
        for seed in range(SEEDS):
            crash_again_after = crash_at % 23 if seed % 3 == 2 else None
            crash_and_check(crash_at, seed * 10_007 + crash_at, crash_again_after=crash_again_after)
