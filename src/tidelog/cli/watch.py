"""`tidelog watch`: the cluster, live: each partition's end offsets, high watermark, ISR and epoch, the controller."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import click

from tidelog.cli.options import bootstrap_option, format_option, security
from tidelog.cli.output import console_for_results, write_json, write_json_line

if TYPE_CHECKING:
    from tidelog.cli.watch_probe import Watcher

INTERVAL_S: Final = 0.5
FIRST_LOOK_SECONDS_MAX: Final = 1.5
# A rate of less time than this would jump.
RATE_SECONDS: Final = 2.0


@click.command()
@click.option("--topic", metavar="REGEX", help="Only topics whose name matches.")
@click.option("--internal/--no-internal", default=False, help="Show the topics that Kafka keeps for itself, too.")
@click.option("--interval", type=click.FloatRange(0.1), default=INTERVAL_S, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Look once and end.")
@click.option("--seconds", type=click.FloatRange(min=0), help="End by itself after this long.")
@bootstrap_option
@format_option
def watch(
    topic: str | None,
    internal: bool,
    interval: float,
    once: bool,
    seconds: float | None,
    bootstrap: str,
    format_: str,
) -> None:
    """Watch a cluster: who leads, who is in sync, how far each replica is. Ctrl-C ends it."""
    from tidelog.cli.watch_probe import Watcher

    watched = Watcher(bootstrap, topics=topic, internal=internal, interval_s=interval, security=security())
    with watched as watcher:
        watcher.wait_for_all(FIRST_LOOK_SECONDS_MAX)
        end = None if seconds is None else time.monotonic() + seconds
        if once:
            _once(watcher, format_)
        elif format_ == "json":
            _json_lines(watcher, interval, end)
        else:
            _live(watcher, interval, end)


def _once(watcher: Watcher, format_: str) -> None:
    from tidelog.cli.watch_picture import Picture

    snapshot = watcher.snapshot()
    if format_ == "json":
        write_json(snapshot.as_json())
        return
    console = console_for_results()
    if not console.is_terminal:
        # Wide enough for everything, narrow enough to be read.
        console.width = 160
    console.print(Picture(snapshot))


def _json_lines(watcher: Watcher, interval: float, end: float | None) -> None:
    while end is None or time.monotonic() < end:
        write_json_line(watcher.snapshot().as_json())
        sys.stdout.flush()
        time.sleep(interval)


def _live(watcher: Watcher, interval: float, end: float | None) -> None:
    from rich.live import Live

    from tidelog.cli.watch_model import changes
    from tidelog.cli.watch_picture import Picture, last, rates

    console = console_for_results()
    events: list[tuple[float, str]] = []
    first = before = watcher.snapshot()
    speeds = rates(first, before)
    with Live(Picture(before, fits_screen=True), console=console, screen=console.is_terminal) as live:
        while end is None or time.monotonic() < end:
            time.sleep(interval)
            now = watcher.snapshot()
            events = last([*events, *((now.at, sentence) for sentence in changes(before, now))])
            if now.at - first.at >= RATE_SECONDS:
                first, speeds = now, rates(first, now)
            problem = None if watcher.failure is None else str(watcher.failure)
            live.update(Picture(now, speeds, events, problem, fits_screen=True), refresh=True)
            before = now
