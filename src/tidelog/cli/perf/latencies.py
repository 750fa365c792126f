"""How long things took: counts by tenths of a millisecond, from which averages and percentiles are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)
STEPS_PER_MS: Final = 10


class Latencies:
    """Any number of measurements in little memory. Not for two threads at once."""

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0.0
        self.max_ms = 0.0
        self._steps: Counter[int] = Counter()

    def add(self, latency_ms: float, count: int = 1) -> None:
        """So many things took so long."""
        self.count += count
        self.total_ms += latency_ms * count
        self.max_ms = max(self.max_ms, latency_ms)
        self._steps[int(latency_ms * STEPS_PER_MS)] += count

    @property
    def average_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0

    def percentiles_ms(self, wanted: Sequence[float] = PERCENTILES) -> list[float]:
        """Below which so many of a hundred lie, to a tenth of a millisecond; zeros where nothing was measured."""
        found: list[float] = []
        seen = 0
        steps = iter(sorted(self._steps.items()))
        step = 0
        for percentile in wanted:
            while seen < self.count * percentile / 100:
                step, count = next(steps)
                seen += count
            found.append(step / STEPS_PER_MS)
        return found

    def buckets(self) -> list[tuple[float, int]]:
        """(milliseconds, count) in ascending order, for a picture."""
        return [(step / STEPS_PER_MS, count) for step, count in sorted(self._steps.items())]
