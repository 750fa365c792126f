"""What `tidelog demo` draws on a terminal: the orders as they come, the revenue that Spark tells, what to try next."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tidelog.cli.demo_orders import ORDERS, REVENUE, WINDOW_SECONDS
from tidelog.cli.options import DEFAULT_BOOTSTRAP_SERVER
from tidelog.cli.output import show_bytes

if TYPE_CHECKING:
    from tidelog.cli.demo_pipeline import DemoPipeline
    from tidelog.cli.demo_stream import Stream
    from tidelog.client.core.record import ConsumerRecord

ORDER_COLUMNS: Final = ("order", "product", "region", "quantity", "amount")


def picture(
    stream: Stream, pipeline: DemoPipeline | None, address: str, data: str, metrics_url: str | None, rates: Rates
) -> RenderableType:
    """Everything, as it is now."""
    written, read, size = rates
    places = Table.grid(padding=(0, 3))
    places.add_row("connect to", f"[bold]{address}[/]")
    places.add_row("data", str(Path(data).resolve()))
    places.add_row("metrics", metrics_url or "off: the port is taken")
    numbers = Table.grid(padding=(0, 3))
    numbers.add_row("written", f"{stream.written:,}", f"[green]{written:,.0f} orders/s[/]")
    numbers.add_row("read", f"{stream.read:,}", f"[green]{read:,.0f} orders/s[/]  {show_bytes(int(size))}/s")
    numbers.add_row("end offset", f"{stream.end_offset:,}", "[dim]sum of all partitions[/]")
    return Panel(
        Group(
            places,
            Text(),
            numbers,
            Text(),
            Panel(_orders(list(stream.latest)), title=f"topic {ORDERS}", title_align="left", border_style="dim"),
            *([] if pipeline is None else [_revenue(pipeline)]),
            Text("In another terminal:", style="bold"),
            Text("\n".join(_tries(address, with_spark=pipeline is not None)), style="yellow"),
        ),
        title="Tidelog",
        subtitle="Ctrl-C stops it",
        border_style="green",
    )


def checked(pipeline: DemoPipeline) -> str:
    """What the comparison of Spark's counts with ours has found."""
    check = pipeline.check
    if check.different:
        return f"{check.different} results differ from the orders counted here, {check.equal} agree"
    return f"{check.equal} results agree with the orders counted here" if check.equal else "nothing to compare yet"


def _orders(records: list[ConsumerRecord]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name in ("", *ORDER_COLUMNS):
        table.add_column(justify="right" if name in ("order", "quantity", "amount") else "left")
    table.add_row(*(Text(name, style="dim") for name in ("offset", *ORDER_COLUMNS)))
    for record in records:
        offset = Text(f"{record.partition}:{record.offset}", style="dim")
        try:
            order = json.loads(record.value or b"")
            cells = [str(order[name]) for name in ORDER_COLUMNS[:-1]] + [f"{order['amount']:,.2f}"]
        except (ValueError, TypeError, KeyError):
            # Somebody tried the commands below and wrote into the topic: that is shown, too.
            cells = ["", Text((record.value or b"").decode(errors="replace")).plain, "", "", ""]
        table.add_row(offset, *(Text(cell, style="cyan" if at == 1 else "") for at, cell in enumerate(cells)))
    return table


def _revenue(pipeline: DemoPipeline) -> Panel:
    table = Table.grid(padding=(0, 2))
    for name in ("until", "product", "orders", "pieces", "revenue"):
        table.add_column(justify="left" if name in ("until", "product") else "right")
    rows = list(pipeline.latest)
    if rows:
        table.add_row(*(Text(name, style="dim") for name in ("until", "product", "orders", "pieces", "revenue")))
    for told in rows:
        numbers = (f"{told.orders:,}", f"{told.pieces:,}", f"{told.revenue:,.2f}")
        table.add_row(Text(told.until, style="dim"), Text(told.product, style="cyan"), *map(Text, numbers))
    lines = [Text(f"Spark: {pipeline.status}", style="green")]
    if pipeline.results:
        style = "bold red" if pipeline.check.different else "green"
        lines.append(Text(f"Check: {checked(pipeline)}", style=style))
    title = f"topic {REVENUE}: every {WINDOW_SECONDS} seconds of orders, summed by Spark, exactly once"
    return Panel(Group(*lines, table), title=title, title_align="left", border_style="dim")


def _tries(address: str, *, with_spark: bool) -> list[str]:
    command = _command()
    where = "" if address == DEFAULT_BOOTSTRAP_SERVER else f" -b {address}"
    return [
        f"{command} consume {ORDERS} --follow --keys{where}",
        *([f"{command} consume {REVENUE} --follow --committed{where}"] if with_spark else []),
        f"{command} topics describe {ORDERS}{where}",
        f"{command} offsets {ORDERS}{where}",
        f"kcat -b {address} -t {ORDERS} -o end",
    ]


def _command() -> str:
    """How to call tidelog from here."""
    if shutil.which("tidelog"):
        return "tidelog"
    installed = Path(sys.executable).with_name("tidelog")
    try:
        return str(installed.relative_to(Path.cwd()))
    except ValueError:
        return str(installed)


# Records written and read, and bytes read, per second.
Rates = tuple[float, float, float]
