"""docs/benchmarks.md: the parts between the markers are written from results, the prose around them is ours to keep
true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import PROJECT
from bench.measure import spread
from bench.plot import plot_curves
from bench.report import rows
from bench.results import Machine, Profile, Results, Taken
from bench.scenarios.catalogue import SCENARIOS
from bench.scenarios.scaling import SCALING
from bench.servers import OURS, THEIRS, TITLES

DOCUMENT: Final = PROJECT / "docs" / "benchmarks.md"
PLOT: Final = PROJECT / "docs" / "benchmarks-scaling.svg"
FIGURES: Final = "figures"
PROFILE: Final = "profile"
SMALL_SHARE_PERCENT: Final = 1.0
# Below this, nobody else was using the machine when the run began.
QUIET_LOAD_MAX: Final = 0.5


def write_document(results: Results) -> Path:
    """Put the results into the document and draw their curves; returns the document's path inside the project."""
    text = DOCUMENT.read_text()
    text = between_markers(text, FIGURES, "\n".join(_figures(results)))
    text = between_markers(text, PROFILE, "\n".join(_profiles(results.profiles)))
    DOCUMENT.write_text(text)
    if SCALING.name in results.scenarios:
        plot_curves(results.samples, PLOT)
    return DOCUMENT.relative_to(PROJECT)


def between_markers(text: str, name: str, content: str, *, program: str = "python -m bench") -> str:
    begin, end = f"<!-- {name}: written by {program} -->", f"<!-- end of {name} -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise RuntimeError(f"{DOCUMENT} has no markers for {name}")
    return f"{head}{begin}\n{content}\n{end}{tail}"


def _figures(results: Results) -> Iterator[str]:
    machines = {described(taken.machine) for taken in results.scenarios.values()}
    if len(machines) == 1:
        yield f"On {machines.pop()}."
        machines.clear()
    for scenario in SCENARIOS:
        taken = results.scenarios.get(scenario.name)
        lines = list(rows(scenario, taken.samples)) if taken is not None else []
        if taken is None or not lines:
            continue
        yield ""
        yield f"### {scenario.name}"
        yield f"{scenario.title[:1].upper()}{scenario.title[1:]}."
        yield ""
        yield f"| | {TITLES[OURS]} | {TITLES[THEIRS]} | ratio | to reach | |"
        yield "|---|--:|--:|--:|--:|:-:|"
        for row in lines:
            yield f"| {row.label} | {row.ours} | {row.theirs} | {row.ratio} | {row.target} | {row.verdict} |"
        yield ""
        yield when(taken) + (f" On {described(taken.machine)}." if machines else "")


def described(machine: Machine) -> str:
    return (
        f"{machine.cores} cores of {machine.processor}, {machine.memory_gb:.0f} GB, Linux {machine.kernel}, "
        f"{machine.file_system}, Python {machine.python}, Java {machine.java}; Apache Kafka {machine.apache_kafka}, "
        f"librdkafka {machine.librdkafka}"
    )


def when(taken: Taken) -> str:
    rounds = f"medians of {taken.rounds} rounds, {_spread(taken)}" if taken.rounds > 1 else "one round"
    said = f"<sub>{taken.taken_at[:10]}, Tidelog {taken.machine.tidelog}, {taken.plan} run, {rounds}."
    if taken.machine.load_before > QUIET_LOAD_MAX:
        # CPU figures hold, rates and latencies are those of what was left over.
        said += f" The machine had other work, too (load {taken.machine.load_before} before it began)."
    return said + "</sub>"


def _spread(taken: Taken) -> str:
    """How far rounds were apart: what a difference between two figures must exceed to mean something."""
    spreads = sorted(spread(values) for servers in taken.samples.values() for values in servers.values())
    return f"half of them within {spreads[len(spreads) // 2]:.0%} of their rounds" if spreads else "no figures"


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
