"""Whom a run of a Spark pipeline loses, and in which order. Pure: one seed, one plan."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Victim(Enum):
    """Who is killed with -9."""

    EXECUTOR = "an executor"
    WORKER = "a worker with all that runs on it"
    DRIVER = "the driver"
    BROKER = "the broker"


@dataclass(frozen=True, slots=True)
class SparkFaults:
    """How often each is killed. The default is the size at which the promise is shown."""

    executors: int = 10
    workers: int = 1
    drivers: int = 5
    brokers: int = 3

    def __len__(self) -> int:
        return self.executors + self.workers + self.drivers + self.brokers

    def in_order(self, seed: int) -> Iterator[Victim]:
        counts = {
            Victim.EXECUTOR: self.executors,
            Victim.WORKER: self.workers,
            Victim.DRIVER: self.drivers,
            Victim.BROKER: self.brokers,
        }
        victims = [victim for victim, count in counts.items() for _ in range(count)]
        random.Random(seed).shuffle(victims)
        return iter(victims)
