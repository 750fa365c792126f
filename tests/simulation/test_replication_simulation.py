"""Replicas of one partition, seed by seed: killed and powerless brokers, torn disks, cut and slow links, flipped bits.

After every step: what is committed never changes and is in every log that may lead, one leader in an epoch, a high
watermark that never goes back; when all is healed the replicas have the same bytes, and nothing that was acknowledged
or read is missing.
"""

from __future__ import annotations

import os

import pytest

from harness.replication.world import run

# How many clusters live, and from which seed on; a failure says which one to look at again.
SEEDS = int(os.environ.get("TIDELOG_REPLICATION_SEEDS", "500"))
FIRST_SEED = int(os.environ.get("TIDELOG_REPLICATION_FIRST_SEED", "0"))
CHUNKS = 10
ACKNOWLEDGED_PER_SEED_MIN = 50


@pytest.mark.req("D3", "D5", "D11", "D12", "D13", "D14", "D15", "D17", "D19", "D21", "E3", "G1")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_replicas_keep_their_promises_whatever_happens(chunk: int) -> None:
    seeds = range(FIRST_SEED + chunk, FIRST_SEED + SEEDS, CHUNKS)

    worlds = [run(seed) for seed in seeds]

    acknowledged = sum(world.acknowledged for world in worlds)
    assert acknowledged >= len(seeds) * ACKNOWLEDGED_PER_SEED_MIN, "where nothing is promised nothing can be broken"
    assert len(seeds) < 10 or sum(world.referee.elections for world in worlds) > len(seeds)


def test_a_seed_is_a_whole_run() -> None:
    first, second = run(7), run(7)

    assert first.history == second.history
    assert first.referee.committed == second.referee.committed
    assert first.stage.events == second.stage.events > 0
