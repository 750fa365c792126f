"""How commands show results: tables for people, JSON alone on standard output for programs, messages on standard error.

`rich` is imported when a table is drawn. On a terminal tables have colours and fit its width; elsewhere they are plain
columns that nothing cuts off.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

Json: TypeAlias = Any
# Wide enough that no line of a table is folded when it goes to a file or a pipe.
PLAIN_WIDTH: Final = 10_000
BYTES_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
BYTES_STEP: Final = 1024


def say(sentence: str) -> None:
    """A message for people; never part of the result."""
    print(sentence, file=sys.stderr, flush=True)


def write_json(value: Json) -> None:
    """One JSON document, indented for those who look at it."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(text.decode() + "\n")
    sys.stdout.flush()


def write_json_line(value: Json) -> None:
    """One line of a stream of JSON documents."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table; columns whose cells are all numbers are set flush right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [list(row) for row in rows]
    console = console_for_results()
    style = box.SIMPLE_HEAD if console.is_terminal else None
    table = Table(
        title=title if console.is_terminal else None,
        title_justify="left",
        box=style,
        header_style="bold",
        pad_edge=False,
    )
    for index, name in enumerate(columns):
        numbers = bool(cells) and all(isinstance(row[index], int) for row in cells)
        table.add_column(name, justify="right" if numbers else "left", no_wrap=not console.is_terminal)
    for row in cells:
        table.add_row(*(Text(str(cell)) for cell in row))
    console.print(table)


def console_for_results() -> Console:
    """Standard output."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)


def show_bytes(count: int) -> str:
    """A number of bytes, in the unit that fits."""
    if count < 0:
        return "-"
    size = float(count)
    for unit in BYTES_UNITS:
        if size < BYTES_STEP or unit == BYTES_UNITS[-1]:
            break
        size /= BYTES_STEP
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
