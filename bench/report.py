"""What a run says, row by row: medians, ratio, target, verdict. The terminal and the document print the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.measure import Better, Curve, Metric, Samples, curve_medians, growth, median, ratio
from bench.scenarios import Figures, Scenario
from bench.servers import OURS, THEIRS, TITLES

MET = "✓"
MISSED = "✗"
NO_FIGURE = "—"


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    ours: str
    theirs: str
    ratio: str
    target: str
    # None: there is no target, or not both figures.
    met: bool | None

    @property
    def verdict(self) -> str:
        return "" if self.met is None else MET if self.met else MISSED


def rows(figures: Figures, samples: Samples) -> Iterator[Row]:
    for metric in figures.metrics:
        if metric.name in samples:
            yield _metric_row(metric, samples)
    for curve in figures.curves:
        yield from _curve_rows(curve, samples)


def _metric_row(metric: Metric, samples: Samples) -> Row:
    quotient = ratio(samples, metric.name)
    ours = median(samples, metric.name, OURS)
    return Row(
        label=metric.label,
        ours=_figure_of(metric, samples, OURS),
        theirs=_figure_of(metric, samples, THEIRS),
        ratio=_times(quotient),
        target=", ".join(filter(None, (_target(metric.better, metric.target), _limit(metric)))),
        met=metric.is_met(ours, quotient),
    )


def _curve_rows(curve: Curve, samples: Samples) -> Iterator[Row]:
    ours = curve_medians(samples, curve, OURS)
    theirs = curve_medians(samples, curve, THEIRS)
    if not ours and not theirs:
        return
    one = curve.along.removesuffix("s")
    yield Row(f"{curve.label}:", "", "", "", "", None)
    for size in curve.sizes:
        if size in ours or size in theirs:
            quotient = ours[size] / theirs[size] if size in ours and size in theirs else None
            label = f"· {size:,} {curve.along if size > 1 else one}"
            yield Row(label, figure(ours.get(size), "µs"), figure(theirs.get(size), "µs"), _times(quotient), "", None)
    own = growth(ours)
    yield Row(
        label=f"· the most expensive against 1 {one}",
        ours=_times(own),
        theirs=_times(growth(theirs)),
        ratio="",
        target=f"ours ≤ {curve.flat_within:.1f}×",
        met=own <= curve.flat_within if own is not None else None,
    )


def _figure_of(metric: Metric, samples: Samples, server: str) -> str:
    text = figure(median(samples, metric.name, server), metric.unit)
    low, high = (median(samples, end, server) for end in (metric.low, metric.high))
    return text if low is None or high is None else f"{text} ({low:.2f} to {high:.2f})"


def figure(value: float | None, unit: str) -> str:
    if value is None:
        return NO_FIGURE
    text = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"{text}{unit}" if unit.startswith("/") else f"{text} {unit}"


def _times(value: float | None) -> str:
    if value is None:
        return NO_FIGURE
    return f"{value:.1f}×" if value >= 10 else f"{value:.2f}×"


def _target(better: Better, target: float | None) -> str:
    if target is None:
        return ""
    bound = f"{target:g}×" if target >= 1 or (1 / target) % 1 else f"1/{1 / target:.0f}"
    return f"{better.value} {bound}"


def _limit(metric: Metric) -> str:
    return "" if metric.limit is None else f"{metric.better.value} {metric.limit:g} {metric.unit}"


def print_table(console: Console, scenarios: Sequence[Scenario], samples: Samples) -> None:
    table = Table(title="Medians, ours beside Apache Kafka", title_style="bold", header_style="bold", show_lines=False)
    table.add_column("")
    table.add_column(TITLES[OURS], justify="right", style="cyan", no_wrap=True)
    table.add_column(TITLES[THEIRS], justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", style="bold", no_wrap=True)
    table.add_column("to reach", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for scenario in scenarios:
        table.add_section()
        table.add_row(f"[bold]{scenario.name}[/bold] [dim]{scenario.title}[/dim]")
        for row in rows(scenario, samples):
            colour = {None: "dim", True: "green", False: "red"}[row.met]
            verdict = f"[{colour}]{row.verdict}[/{colour}]"
            table.add_row(f"  {row.label}", row.ours, row.theirs, row.ratio, row.target, verdict)
    console.print(table)
