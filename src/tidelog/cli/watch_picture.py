"""How `tidelog watch` draws a cluster: a card for each broker, the quorum, a row for each partition, what happened.

A partition's replicas are bars side by side: green is what consumers may read, yellow what not all in-sync replicas
have yet. The high watermark is where the shortest bar of the ISR ends. Fits any width and height.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich import box
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tidelog.cli.watch_model import Snapshot, WatchedBroker, WatchedPartition
from tidelog.model.ids import NodeId, TopicPartition

# Each broker keeps its colour wherever it is named; none of them is one that means something.
COLOURS: Final = ("#5fafff", "#d787ff", "#5fd7d7", "#ffaf87", "#afaf5f", "#87afaf")
BAR_CELLS: Final = 10
BAR_CELLS_NARROW: Final = 4
NARROW_COLUMNS: Final = 120
# At least this many records fill a bar, so that one record behind is one cell at most.
BAR_RECORDS_MIN: Final = BAR_CELLS
CROWN: Final = "♛"
IN_SYNC: Final = "●"
BEHIND: Final = "○"
GONE: Final = "✕"
EVENTS_SHOWN: Final = 8
# Of a small terminal they get this part at most.
EVENTS_PART: Final = 5
# Lines around the rows of partitions: cards, quorum, frames, headings.
LINES_AROUND: Final = 12
CARD_COLUMNS: Final = 30
NAME_COLUMNS_MIN: Final = 10


@dataclass(frozen=True, slots=True)
class Picture:
    """One look at the cluster. Rich asks it to draw itself, each time with the size that the terminal has then."""

    snapshot: Snapshot
    rates: Mapping[TopicPartition, float] = field(default_factory=dict)
    events: Sequence[tuple[float, str]] = ()
    problem: str | None = None
    # In a terminal that is redrawn, no more rows than fit.
    fits_screen: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrow = options.max_width < NARROW_COLUMNS
        parts: list[RenderableType] = [self._cards(options.max_width), self._quorum()]
        rows, events = len(self.snapshot.partitions), min(len(self.events), EVENTS_SHOWN)
        if self.fits_screen:
            height = options.height or options.size.height
            events = min(events, max(height // EVENTS_PART, 1))
            rows = height - LINES_AROUND - events
        parts.append(self._partitions(max(rows, 1), narrow))
        if events:
            parts.append(self._events(events))
        yield Group(*parts)

    # Brokers

    def _cards(self, width: int) -> RenderableType:
        cards = [self._card(broker) for broker in self.snapshot.brokers]
        return Columns(cards, equal=True, width=min(CARD_COLUMNS, max(width // max(len(cards), 1) - 1, 16)))

    def _card(self, broker: WatchedBroker) -> Panel:
        leads = sum(one.leader == broker.id for one in self.snapshot.partitions)
        holds = sum(broker.id in one.replicas for one in self.snapshot.partitions)
        if not broker.registered:
            state, border = Text(f"{GONE} gone", style="bold red"), "red"
        elif not broker.answers:
            state, border = Text("… does not answer", style="bold yellow"), "yellow"
        else:
            state, border = Text(f"leads {leads} of {holds}"), _colour(broker.id)
        title = Text(f"broker {broker.id}", style=f"bold {_colour(broker.id)}")
        if broker.id == self.snapshot.controller:
            title.append(f" {CROWN}", style="bold yellow")
            state.append(" · controller", style="bold yellow")
        state.no_wrap, state.overflow = True, "ellipsis"
        return Panel(
            Group(Text(broker.address, style="dim"), state), title=title, title_align="left", border_style=border
        )

    def _quorum(self) -> RenderableType:
        quorum = self.snapshot.quorum
        line = Text(" metadata  ", style="bold")
        if self.problem is not None:
            return line.append(self.problem, style="red")
        if quorum is None:
            return line.append("not a quorum", style="dim")
        line.append("leader ", style="dim")
        line.append(str(quorum.leader) if quorum.leader >= 0 else "nobody", style=f"bold {_colour(quorum.leader)}")
        line.append("  epoch ", style="dim").append(str(quorum.epoch))
        line.append("  high watermark ", style="dim").append(f"{quorum.high_watermark:,}")
        for kind, replicas in (("voters", quorum.voters), ("observers", quorum.observers)):
            if replicas:
                line.append(f"  {kind}", style="dim")
            for replica in sorted(replicas, key=lambda one: one.node_id):
                behind = max(quorum.end_offset - replica.end_offset, 0)
                line.append(f" {replica.node_id}", style=f"bold {_colour(replica.node_id)}")
                line.append(f" −{behind:,}" if behind else " ✓", style="yellow" if behind else "green")
        return line

    # Partitions

    def _partitions(self, rows: int, narrow: bool) -> RenderableType:
        snapshot = self.snapshot
        if not snapshot.partitions:
            return Panel(Text("There are no topics yet.", style="dim"), border_style="dim")
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=True, padding=(0, 1))
        table.add_column("partition", no_wrap=True, overflow="ellipsis", min_width=NAME_COLUMNS_MIN)
        table.add_column("epoch", justify="right", no_wrap=True)
        table.add_column("in sync", no_wrap=True)
        table.add_column("high watermark" if not narrow else "HW", justify="right", no_wrap=True)
        if not narrow:
            table.add_column("records/s", justify="right", no_wrap=True)
        for broker in snapshot.brokers:
            heading = Text(f"broker {broker.id}" if not narrow else f"{broker.id}", style=_colour(broker.id))
            table.add_column(heading, no_wrap=True, min_width=10)
        shown = snapshot.partitions[:rows]
        registered = {broker.id for broker in snapshot.brokers if broker.registered}
        for one in shown:
            table.add_row(*self._row(one, registered, narrow))
        left = len(snapshot.partitions) - len(shown) + snapshot.hidden
        if left:
            return Group(table, Text(f" … and {left:,} more (--topic shows some of them)", style="dim"))
        return table

    def _row(self, one: WatchedPartition, registered: set[NodeId], narrow: bool) -> list[RenderableType]:
        mark = "─" if one.high_watermark is None else f"{one.high_watermark:,}"
        cells: list[RenderableType] = [
            Text(str(one.place), style="bold" if one.leader >= 0 else "bold red"),
            Text(str(one.epoch), style="dim"),
            _in_sync(one),
            Text(mark, style="green"),
        ]
        if not narrow:
            rate = self.rates.get(one.place, 0.0)
            cells.append(Text(f"{rate:,.0f}" if rate >= 0.5 else "", style="dim"))
        for broker in self.snapshot.brokers:
            cells.append(_replica(one, broker.id, broker.id in registered, BAR_CELLS_NARROW if narrow else BAR_CELLS))
        return cells

    def _events(self, count: int) -> RenderableType:
        lines = Text()
        for at, sentence in self.events[-count:]:
            lines.append(time.strftime(" %H:%M:%S  ", time.localtime(at)), style="dim")
            lines.append(sentence + "\n")
        lines.rstrip()
        return Panel(lines, title="what happened", title_align="left", border_style="dim", padding=(0, 0))


def _in_sync(one: WatchedPartition) -> Text:
    text = Text()
    for index, node in enumerate(one.replicas):
        if index:
            text.append(" ")
        text.append(str(node), style=f"bold {_colour(node)}" if node in one.isr else "dim strike")
    if one.eligible:
        text.append(f" (ELR {','.join(map(str, one.eligible))})", style="yellow")
    return text


def _replica(one: WatchedPartition, node: NodeId, registered: bool, cells: int) -> Text:
    """One replica: what it is, its bar, where it ends and how far it is behind."""
    if node not in one.replicas:
        return Text("·", style="dim")
    end, lag = one.ends.get(node), one.lag(node)
    if end is None or lag is None:
        return Text(f"{GONE} gone" if not registered else "… silent", style="red" if not registered else "yellow")
    if node == one.leader:
        text = Text(f"{CROWN} ", style=f"bold {_colour(node)}")
    elif node in one.isr:
        text = Text(f"{IN_SYNC} ", style="green")
    else:
        text = Text(f"{BEHIND} ", style="yellow")
    text.append_text(_bar(one, node, cells))
    if cells == BAR_CELLS or node == one.leader:
        text.append(f" {end:,}", style=f"bold {_colour(node)}" if node == one.leader else "default")
    if lag:
        text.append(f" −{lag:,}", style="yellow")
    return text


def _bar(one: WatchedPartition, node: NodeId, cells: int) -> Text:
    """The end of a replica's log, on one scale with the others of its partition."""
    top = one.end or 0
    lowest = min((*one.ends.values(), one.high_watermark if one.high_watermark is not None else top))
    span = max(top - lowest, BAR_RECORDS_MIN) * cells / max(cells - 2, 1)
    own = one.ends[node]
    readable = own if one.high_watermark is None else min(one.high_watermark, own)
    green = _cells(top, span, readable, cells)
    filled = _cells(top, span, own, cells)
    text = Text("━" * green, style="green")
    text.append("━" * (filled - green), style="yellow")
    return text.append("╌" * (cells - filled), style="bright_black")


def _cells(top: int, span: float, offset: int, cells: int) -> int:
    """How many cells of a bar that ends at `top` are below an offset."""
    if top == 0:
        return 0
    return max(min(round(cells * (1 - (top - offset) / span)), cells), 0)


def _colour(node: NodeId) -> str:
    return COLOURS[(node - 1) % len(COLOURS)] if node >= 0 else "red"


def rates(before: Snapshot, now: Snapshot) -> dict[TopicPartition, float]:
    """Records that became readable in a second, by partition."""
    passed = now.at - before.at
    marks = {one.place: one.high_watermark for one in before.partitions}
    found: dict[TopicPartition, float] = {}
    for one in now.partitions:
        was = marks.get(one.place)
        if was is not None and one.high_watermark is not None and passed > 0:
            found[one.place] = max(one.high_watermark - was, 0) / passed
    return found


def last(events: Iterable[tuple[float, str]]) -> list[tuple[float, str]]:
    """The events that are worth keeping."""
    return list(events)[-EVENTS_SHOWN:]
