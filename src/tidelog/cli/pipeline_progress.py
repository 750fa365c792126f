"""How `tidelog pipeline` shows a pipeline: a line for each thing that happened, and on a terminal one that moves.

A log or a pipe gets a line for each batch; on a terminal the line of a batch takes the place of the one before.
"""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from tidelog.spark.pipeline.registry import PipelineState

COLOURS: Final = {
    "starting": "yellow",
    "waiting": "yellow",
    "running": "green",
    "restarting": "yellow",
    "finished": "cyan",
    "stopped": "cyan",
    "failed": "red",
    "died": "red",
}
CLEAR_LINE: Final = "\r\x1b[2K"


class Progress:
    """Tells the states of one pipeline to a stream, one after the other."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stdout
        self._moves = self._stream.isatty()
        # What the line that may be replaced is about; None when there is none.
        self._open: str | None = None

    def tell(self, state: PipelineState) -> None:
        line = line_of(state, colour=self._moves)
        if not self._moves:
            print(line, file=self._stream, flush=True)
            return
        if self._open is not None:
            # Of the same kind: it is replaced. What went wrong stays to be read.
            self._stream.write(CLEAR_LINE if self._open == state.status else "\n")
        self._stream.write(line)
        self._open = None if state.failure is not None or state.status not in ("starting", "running") else state.status
        if self._open is None:
            self._stream.write("\n")
        self._stream.flush()


def line_of(state: PipelineState, *, colour: bool = False) -> str:
    """A state in one line."""
    status = click.style(state.status, fg=COLOURS.get(state.status)) if colour else state.status
    name = click.style(state.name, bold=True) if colour else state.name
    line = f"{name}: {status}"
    if state.batch_id >= 0:
        line += f"  batch {state.batch_id}  rows {state.rows:,} ({state.rows_per_second:,.0f}/s)"
        line += f"  lag {lag_of(state)}  {state.batch_ms} ms"
    elif state.note is not None and state.failure is None:
        line += f"  {state.note}"
    return line if state.failure is None else f"{line}  {state.failure}"


def lag_of(state: PipelineState) -> str:
    return "-" if state.lag is None else f"{state.lag:,}"
