"""Faults, planned: what befalls a cluster, in which order and for how long. Pure: one seed, one plan.

`run.py` carries it out. Most faults harm one broker, so that two of three remain and writes go on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import cycle
from typing import Final


class Kind(Enum):
    """What can happen. The victim is chosen when it does: who leads is not known before."""

    KILL_LEADER = "kill -9 of a leader"
    KILL_FOLLOWER = "kill -9 of a follower"
    KILL_CONTROLLER = "kill -9 of the controller"
    KILL_ALL = "kill -9 of all brokers at once"
    TWO_AT_ONCE = "one broker stops for a while, another is killed"
    PAUSE_LEADER = "a leader stops for a while"
    PAUSE_CONTROLLER = "the controller stops for a while"
    CUT_FROM_LEADER = "nothing passes from a leader to one follower"
    CUT_TO_LEADER = "nothing passes from one follower to a leader"
    DEAF_CONTROLLER = "nothing reaches the controller"
    MUTE_CONTROLLER = "nothing leaves the controller"
    ISOLATE_LEADER = "a leader is cut off from the others"
    DELAY = "everything between two brokers is late"
    RESET = "all connections between two brokers break"
    LOST_ANSWERS = "what a leader answers its clients is lost"
    RESTART_LEADER = "a leader is restarted in an orderly way"
    ROLLING_RESTART = "all brokers are restarted, one after another"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens for a while; then it is undone."""

    kind: Kind
    seconds: float


SECONDS_MIN: Final = 1.0
SECONDS_MAX: Final = 8.0
# Long enough that whoever is gone is noticed.
DENSE_SECONDS: Final = 3.0


def dense() -> Iterator[Fault]:
    """The short plan: every kind once, then again from the first; it never ends."""
    return (Fault(kind, DENSE_SECONDS) for kind in cycle(Kind))


def endless(seed: int) -> Iterator[Fault]:
    """A plan that never ends; all kinds come before one comes again."""
    chance = random.Random(seed)
    while True:
        for kind in chance.sample(list(Kind), len(Kind)):
            yield Fault(kind, round(chance.uniform(SECONDS_MIN, SECONDS_MAX), 1))
