"""What a terminal and a log show of a pipeline."""

from __future__ import annotations

import io
from dataclasses import replace

import click

from tidelog.cli.pipeline_progress import CLEAR_LINE, Progress
from tidelog.spark.pipeline.registry import PipelineState

STARTING = PipelineState("orders", "orders.toml", 1, 0.0, 0.0, "starting")
RUNNING = replace(STARTING, status="running")
FIRST = replace(RUNNING, batch_id=0, rows=1500, rows_per_second=750.0, lag=20, batch_ms=2000)
SECOND = replace(FIRST, batch_id=1, rows=3000, lag=0)
BROKEN = replace(SECOND, status="restarting", failure="Topic 'orders' is gone.")
STATES = (STARTING, RUNNING, FIRST, SECOND, BROKEN, replace(SECOND, status="finished"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told_to(stream: io.StringIO) -> str:
    progress = Progress(stream)
    for state in STATES:
        progress.tell(state)
    return stream.getvalue()


def test_a_log_gets_a_line_for_each_thing_that_happened() -> None:
    assert told_to(io.StringIO()).splitlines() == [
        "orders: starting",
        "orders: running",
        "orders: running  batch 0  rows 1,500 (750/s)  lag 20  2000 ms",
        "orders: running  batch 1  rows 3,000 (750/s)  lag 0  2000 ms",
        "orders: restarting  batch 1  rows 3,000 (750/s)  lag 0  2000 ms  Topic 'orders' is gone.",
        "orders: finished  batch 1  rows 3,000 (750/s)  lag 0  2000 ms",
    ]


def test_on_a_terminal_a_batch_takes_the_line_of_the_one_before_and_failures_stay() -> None:
    told = click.unstyle(told_to(Terminal()).replace(CLEAR_LINE, "<"))

    assert told == (
        "orders: starting\n"
        "orders: running<orders: running  batch 0  rows 1,500 (750/s)  lag 20  2000 ms"
        "<orders: running  batch 1  rows 3,000 (750/s)  lag 0  2000 ms\n"
        "orders: restarting  batch 1  rows 3,000 (750/s)  lag 0  2000 ms  Topic 'orders' is gone.\n"
        "orders: finished  batch 1  rows 3,000 (750/s)  lag 0  2000 ms\n"
    )
