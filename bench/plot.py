"""The curves as a picture: cost per request against the number of partitions and connections."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.measure import Samples, curve_medians
from bench.scenarios.scaling import SCALING
from bench.servers import OURS, THEIRS, TITLES

COLOURS: Final = {OURS: "#0f766e", THEIRS: "#9a3412"}
TITLES_OF_CURVES: Final = {
    "scaling.partitions": "small produce to one of so many",
    "scaling.spread": "small produce, spread over all",
    "scaling.connections": "small produce",
    "scaling.session": "fetch in a session over all",
}


def plot_curves(samples: Samples, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    # The same figures make the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "tidelog", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(SCALING.curves), figsize=(13, 3.4), layout="constrained")
    for curve, panel in zip(SCALING.curves, panels, strict=True):
        for server in (OURS, THEIRS):
            values = curve_medians(samples, curve, server)
            if not values:
                continue
            panel.plot(
                list(values),
                list(values.values()),
                marker="o",
                color=COLOURS[server],
                label=TITLES[server],
                linewidth=1.6,
            )
            for size, value in values.items():
                panel.annotate(f"{value:.3g}", (size, value), textcoords="offset points", xytext=(0, 6), ha="center")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.margins(x=0.08, y=0.18)
        panel.set_title(TITLES_OF_CURVES[curve.name])
        panel.set_xlabel(curve.along)
        panel.grid(True, which="major", alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("µs of broker CPU per request")
    panels[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
