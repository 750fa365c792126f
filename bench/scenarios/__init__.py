"""What the two servers are asked to do. A scenario runs on one server and returns a value for each of its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from bench.measure import Curve, Metric
from bench.plan import Plan
from bench.servers import Contender

# Told what is going on, for the progress bar.
Note: TypeAlias = Callable[[str], None]


class Figures(Protocol):
    """What there is to say about samples that were taken."""

    @property
    def metrics(self) -> Sequence[Metric]: ...

    @property
    def curves(self) -> Sequence[Curve]: ...


class Scenario(Figures, Protocol):
    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str:
        """One line: what is done."""
        ...

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        """Measure once; keys are names of metrics, or of points of curves."""
        ...
