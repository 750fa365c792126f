"""Whole brokers, three of them, on simulated clock, network and disk: clients at work through crashes, loss of power,
cuts one way and both, delays and clocks that leap. `make sim` runs thousands of seeds.
"""

from __future__ import annotations

import os

import pytest

from harness.nodes.mutants import MUTANTS
from harness.nodes.simulation import Outcome, Simulation

SEEDS = int(os.environ.get("TIDELOG_SIMULATION_SEEDS", "150"))
FIRST_SEED = int(os.environ.get("TIDELOG_SIMULATION_FIRST_SEED", "0"))
SEEDS_PER_TEST = 25
SEEDS_TO_FIND_A_MISTAKE = 60


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEEDS, SEEDS_PER_TEST))
@pytest.mark.req("D19", "F6", "F8", "E3", "D13")
def test_nothing_acknowledged_is_lost_and_all_nodes_know_the_same(first: int) -> None:
    outcomes = [Simulation(seed).run() for seed in range(first, first + SEEDS_PER_TEST)]

    # The runs were worth something.
    assert sum(outcome.crashes for outcome in outcomes) > SEEDS_PER_TEST
    assert sum(outcome.controllers for outcome in outcomes) > SEEDS_PER_TEST
    assert sum(outcome.topics for outcome in outcomes) > SEEDS_PER_TEST
    assert sum(outcome.written for outcome in outcomes) > 10 * SEEDS_PER_TEST


def test_a_seed_tells_the_same_story_every_time() -> None:
    def told() -> Outcome:
        return Simulation(7).run()

    assert told() == told()


@pytest.mark.parametrize("mistake", MUTANTS)
def test_a_mistake_is_found(mistake: str) -> None:
    with MUTANTS[mistake], pytest.raises(AssertionError):
        for seed in range(SEEDS_TO_FIND_A_MISTAKE):
            Simulation(seed).run()
