"""docs/benchmarks.md: the part between the markers is written from a run, the prose around it is ours to keep true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import PROJECT
from bench.measure import spread
from bench.plot import plot_curves
from bench.report import rows
from bench.results import Profile, Run
from bench.scenarios.catalogue import SCENARIOS
from bench.servers import OURS, THEIRS, TITLES

DOCUMENT: Final = PROJECT / "docs" / "benchmarks.md"
PLOT: Final = PROJECT / "docs" / "benchmarks-scaling.svg"
FIGURES: Final = "figures"
PROFILE: Final = "profile"
SMALL_SHARE_PERCENT: Final = 1.0
# Below this, nobody else was using the machine when the run began.
QUIET_LOAD_MAX: Final = 0.5


def write_document(run: Run) -> Path:
    """Put the run into the document and draw its curves; returns the document's path inside the project."""
    text = DOCUMENT.read_text()
    text = _between_markers(text, FIGURES, "\n".join(_figures(run)))
    text = _between_markers(text, PROFILE, "\n".join(_profiles(run.profiles)))
    DOCUMENT.write_text(text)
    plot_curves(run.samples, PLOT)
    return DOCUMENT.relative_to(PROJECT)


def _between_markers(text: str, name: str, content: str) -> str:
    begin, end = f"<!-- {name}: written by python -m bench -->", f"<!-- end of {name} -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise RuntimeError(f"{DOCUMENT} has no markers for {name}")
    return f"{head}{begin}\n{content}\n{end}{tail}"


def _figures(run: Run) -> Iterator[str]:
    machine = run.machine
    yield f"Taken {run.taken_at[:10]}, {run.plan} run, medians of {run.rounds} round{'s' if run.rounds > 1 else ''}, on"
    yield f"{machine.cores} cores of {machine.processor}, {machine.memory_gb:.0f} GB, Linux {machine.kernel},"
    yield f"{machine.file_system}. Tidelog {machine.tidelog} on Python {machine.python}; Apache Kafka"
    yield f"{machine.apache_kafka} on Java {machine.java}; librdkafka {machine.librdkafka}."
    if machine.load_before > QUIET_LOAD_MAX:
        yield ""
        yield f"> The machine was busy with other work during this run (load {machine.load_before} before it began):"
        yield "> CPU figures hold, rates and latencies are those of what was left over."
    for scenario in SCENARIOS:
        lines = list(rows(scenario, run.samples))
        if not lines:
            continue
        yield ""
        yield f"### {scenario.name}"
        yield f"{scenario.title}."
        yield ""
        yield f"| | {TITLES[OURS]} | {TITLES[THEIRS]} | ratio | to reach | |"
        yield "|---|--:|--:|--:|--:|:-:|"
        for row in lines:
            yield f"| {row.label} | {row.ours} | {row.theirs} | {row.ratio} | {row.target} | {row.verdict} |"
    yield ""
    yield _spread_line(run)


def _spread_line(run: Run) -> str:
    """How far rounds were apart: what a difference between two figures must exceed to mean something."""
    spreads = [spread(values) for servers in run.samples.values() for values in servers.values() if len(values) > 1]
    if not spreads:
        return "One round only: how far rounds differ is not known."
    spreads.sort()
    return (
        f"Rounds differed from their median by at most {spreads[len(spreads) // 2]:.0%} for half of these figures "
        f"and {spreads[len(spreads) * 9 // 10]:.0%} for nine in ten."
    )


def _profiles(profiles: list[Profile]) -> Iterator[str]:
    for profile in profiles:
        yield ""
        yield f"### {profile.scenario}: {profile.cpu_us_per_request:.1f} µs of CPU per request"
        yield f"{profile.title}. The kernel has {profile.system_percent:.0f} % of it; {profile.samples:,} samples."
        yield ""
        yield "| | share | µs |"
        yield "|---|--:|--:|"
        for share in profile.shares:
            if share.percent >= SMALL_SHARE_PERCENT:
                taken = profile.cpu_us_per_request * share.percent / 100
                yield f"| {share.part} | {share.percent:.0f} % | {taken:.2f} |"
