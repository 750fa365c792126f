"""What is measured, and what is made of it: metrics with their targets, samples of several rounds, medians, ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from bench.servers import OURS, THEIRS

# Metric name -> server name -> one value for each round.
Samples: TypeAlias = dict[str, dict[str, list[float]]]


class Better(Enum):
    """Which way is good."""

    HIGHER = "≥"
    LOWER = "≤"


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a scenario. The target bounds ours divided by theirs, the limit ours alone."""

    name: str
    label: str
    unit: str
    better: Better
    target: float | None = None
    limit: float | None = None
    # Whether each sample comes with an interval around it, under the names of its ends.
    has_interval: bool = False

    @property
    def low(self) -> str:
        return f"{self.name}.low"

    @property
    def high(self) -> str:
        return f"{self.name}.high"

    def is_met(self, ours: float | None, ratio: float | None) -> bool | None:
        """Whether what is to be reached is; None when nothing is, or a figure for it is missing."""
        bounds = [(ratio, self.target), (ours, self.limit)]
        known = [(value, bound) for value, bound in bounds if value is not None and bound is not None]
        if not known or len(known) < sum(bound is not None for _, bound in bounds):
            return None
        return all(value >= bound if self.better is Better.HIGHER else value <= bound for value, bound in known)


@dataclass(frozen=True, slots=True)
class Curve:
    """One cost at several sizes. To reach: no size costs more than `flat_within` times the first."""

    name: str
    label: str
    unit: str
    along: str
    sizes: tuple[int, ...]
    flat_within: float

    def point(self, size: int) -> str:
        """The name under which samples at this size are kept."""
        return f"{self.name}.{size}"


def median(samples: Samples, metric: str, server: str) -> float | None:
    values = samples.get(metric, {}).get(server)
    return statistics.median(values) if values else None


def ratio(samples: Samples, metric: str) -> float | None:
    """Ours divided by theirs, of the medians; None until both are there."""
    ours = median(samples, metric, OURS)
    theirs = median(samples, metric, THEIRS)
    return ours / theirs if ours is not None and theirs else None


def curve_medians(samples: Samples, curve: Curve, server: str) -> dict[int, float]:
    found = {size: median(samples, curve.point(size), server) for size in curve.sizes}
    return {size: value for size, value in found.items() if value is not None}


def growth(values: dict[int, float]) -> float | None:
    """How much more than the first size the most expensive one costs."""
    if len(values) < 2:
        return None
    first, *rest = values.values()
    return max(rest) / first


def spread(values: Sequence[float]) -> float:
    """Largest difference from the median, as a part of it."""
    middle = statistics.median(values)
    return max(abs(value - middle) for value in values) / middle if middle else 0.0
