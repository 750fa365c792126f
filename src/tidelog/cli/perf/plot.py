"""A picture of latencies. Needs `tidelog[plot]`, which is loaded when a picture is asked for."""

from __future__ import annotations

from typing import Final

from tidelog.cli.failures import BadInput
from tidelog.cli.perf.latencies import Latencies

BARS: Final = 60
LEAST_MS: Final = 0.05
SHOWN: Final = (50.0, 99.0, 99.9)


def check_plotting() -> None:
    """BadInput, before anything is measured, when a picture could not be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise BadInput("A picture needs matplotlib: pip install 'tidelog[plot]'") from None


def plot_latencies(latencies: Latencies, title: str, path: str) -> None:
    """Write a histogram, with logarithmic bars, to a file whose name says the format."""
    from matplotlib.figure import Figure

    buckets = latencies.buckets()
    times = [max(milliseconds, LEAST_MS) for milliseconds, _ in buckets]
    first, last = times[0], max(times[-1], times[0] * 1.1)
    edges = [first * (last / first) ** (bar / BARS) for bar in range(BARS + 1)]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.hist(times, edges, weights=[count for _, count in buckets], color="#3b7dd8")
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds until acknowledged")
    axes.set_ylabel("records")
    axes.set_title(title)
    for percentile, milliseconds in zip(SHOWN, latencies.percentiles_ms(SHOWN), strict=True):
        place = max(milliseconds, LEAST_MS)
        axes.axvline(place, color="#d8433b", linewidth=1, linestyle="--")
        axes.annotate(
            f"p{percentile:g} {milliseconds:.1f} ms",
            (place, 1),
            xycoords=("data", "axes fraction"),
            rotation=90,
            va="top",
            ha="right",
            fontsize=8,
        )
    figure.savefig(path, dpi=120)
