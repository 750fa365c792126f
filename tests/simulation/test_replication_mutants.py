"""Replicas with a mistake that was put in on purpose: the simulation must find every one of them.

A simulation that cannot lose proves nothing. The test fails when a mutant survives.
"""

from __future__ import annotations

import pytest

from harness.replication.mutants import MUTANTS, mutant
from harness.replication.referee import Violation
from harness.replication.world import run

# Runs that a mutant gets to be found in; most are found in the first few.
SEEDS = 150


@pytest.mark.parametrize("name", MUTANTS)
def test_the_simulation_finds_replicas_that(name: str) -> None:
    with mutant(name), pytest.raises(Violation):
        for seed in range(SEEDS):
            run(seed)
