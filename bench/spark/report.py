"""The figures with Spark on the terminal and in docs/benchmarks.md, and rows per second by record size as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.document import DOCUMENT, between_markers, described, when
from bench.measure import Samples, median
from bench.plot import COLOURS
from bench.report import Row, rows
from bench.results import Results, Taken
from bench.servers import OURS, THEIRS
from bench.spark.figures import (
    EXACTLY_ONCE,
    LATENCY,
    MEMORY,
    MEMORY_HEAP,
    PARTS,
    READ_MEMORY_GIGABYTES,
    SEGMENTS,
    SIZES,
    name_of,
)

PLOT: Final = DOCUMENT.with_name("benchmarks-spark.svg")
MARKER: Final = "spark"
CONNECTOR_TITLE: Final = "Spark's connector"
RATES: Final = tuple(str(size) for size in SIZES)


def document(results: Results) -> None:
    """Put the figures into the document and draw the curves, once all of their points are known."""
    lines = list(_lines(results))
    if all(size in results.scenarios for size in RATES):
        _plot(results.samples, PLOT)
        lines += ["", f"![Rows per second by record size]({PLOT.name})"]
    text = between_markers(DOCUMENT.read_text(), MARKER, "\n".join(lines), program="python -m bench.spark")
    DOCUMENT.write_text(text)


def table(results: Results, parts: Sequence[str]) -> Iterator[str]:
    for name in parts:
        for row in rows(PARTS[name], results.scenarios[name].samples):
            yield f"{row.label:45} {row.ours:>18} {row.theirs:>18} {row.ratio:>8} {row.target:>8} {row.verdict}"


def _lines(results: Results) -> Iterator[str]:
    machines = {described(taken.machine) for taken in results.scenarios.values()}
    for machine in sorted(machines):
        yield f"On {machine}."
    small, large = READ_MEMORY_GIGABYTES
    yield from _section(results, [*RATES, LATENCY], "Tidelog", CONNECTOR_TITLE)
    yield from _section(results, [SEGMENTS], "via segments", "over the network")
    yield from _section(results, [EXACTLY_ONCE], "exactly once", "at least once")
    yield from _section(
        results, [MEMORY], f"{large:g} GB read, heap {MEMORY_HEAP}", f"{small:g} GB read, heap {MEMORY_HEAP}"
    )


def _section(results: Results, names: Sequence[str], ours: str, theirs: str) -> Iterator[str]:
    known: list[Taken] = [results.scenarios[name] for name in names if name in results.scenarios]
    if not known:
        return
    yield ""
    yield f"| | {ours} | {theirs} | ratio | to reach | |"
    yield "|---|--:|--:|--:|--:|:-:|"
    for name in names:
        if name in results.scenarios:
            for row in rows(PARTS[name], results.scenarios[name].samples):
                yield _line(row)
    yield ""
    yield from dict.fromkeys(when(taken) for taken in known)


def _line(row: Row) -> str:
    return f"| {row.label} | {row.ours} | {row.theirs} | {row.ratio} | {row.target} | {row.verdict} |"


def _plot(samples: Samples, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    # The same figures make the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "tidelog", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
    for job, title, panel in zip(("batch", "stream"), ("batch read", "stream"), panels, strict=True):
        for server, label in ((OURS, "Tidelog"), (THEIRS, CONNECTOR_TITLE)):
            values = [median(samples, name_of(job, size), server) for size in SIZES]
            panel.plot(SIZES, values, marker="o", color=COLOURS[server], label=label, linewidth=1.6)
            for size, value in zip(SIZES, values, strict=True):
                if value is not None:
                    said = f"{value / 1000:,.0f}k"
                    panel.annotate(said, (size, value), textcoords="offset points", xytext=(0, 6), ha="center")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.margins(x=0.1, y=0.18)
        panel.set_title(title)
        panel.set_xlabel("bytes per record")
        panel.grid(True, which="major", alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("rows per second")
    panels[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
