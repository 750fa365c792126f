"""`tidelog perf produce|consume|end-to-end|transactions`: a bar on a terminal, then a table, JSON or a picture."""

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from tidelog.cli.options import KeyValue, bootstrap_option, format_option, protection
from tidelog.cli.output import say, write_json, write_table

RECORDS: Final = 1_000_000
RECORD_BYTES: Final = 1000
MEGABYTE: Final = 1_000_000

records_option = click.option("-n", "--records", type=click.IntRange(1), default=RECORDS, show_default=True)
size_option = click.option(
    "--record-size", type=click.IntRange(0), default=RECORD_BYTES, show_default=True, help="Bytes of each value."
)
setting_option = click.option(
    "-X", "--setting", "settings", type=KeyValue(), multiple=True, help="Any of Kafka's properties of the client."
)
plot_option = click.option("--plot", metavar="FILE", help="A picture of the latencies: out.png, out.svg.")


@click.group()
def perf() -> None:
    """Measure a cluster."""


@perf.command()
@bootstrap_option
@click.argument("topic")
@records_option
@size_option
@click.option("--throughput", type=float, default=-1, help="Records a second at most; without it as many as go.")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="1", show_default=True)
@setting_option
@format_option
@plot_option
def produce(
    bootstrap: str,
    topic: str,
    records: int,
    record_size: int,
    throughput: float,
    acks: str,
    settings: tuple[tuple[str, str], ...],
    format_: str,
    plot: str | None,
) -> int:
    """Write records and measure when each is acknowledged."""
    from tidelog.cli.perf.payloads import RandomPayloads
    from tidelog.cli.perf.plot import check_plotting, plot_latencies
    from tidelog.cli.perf.produce import ProducePlan, run_produce

    if plot:
        check_plotting()
    plan = ProducePlan(
        topic=topic,
        records=records,
        payloads=RandomPayloads(record_size),
        settings={"bootstrap.servers": bootstrap, "acks": acks, **protection(), **dict(settings)},
        throughput=throughput,
    )
    with _bar(f"writing to {topic}", records) as advance:
        result = run_produce(plan, on_sent=advance)
    total = result.total
    found = {
        "records": total.records,
        "seconds": round(total.elapsed_ms / 1000, 3),
        "records_per_second": round(total.records_per_s),
        "megabytes_per_second": round(total.bytes_per_s / MEGABYTE, 2),
        **_latencies(total.latencies),
        "failed": result.failed,
    }
    _show(found, format_)
    if plot and total.records:
        plot_latencies(total.latencies, f"{total.records:,} records of {record_size:,} bytes, acks={acks}", plot)
    if result.first_error is not None:
        say(f"{result.failed} records were not written: {result.first_error}")
        return 1
    return 0


@perf.command()
@bootstrap_option
@click.argument("topic")
@records_option
@click.option("--group", help="Join this group; without it all partitions are read from the beginning.")
@click.option("--fetch-size", type=click.IntRange(1), default=1024 * 1024, show_default=True)
@click.option("--timeout-ms", type=click.IntRange(1), default=10_000, show_default=True, help="End if none comes.")
@setting_option
@format_option
def consume(
    bootstrap: str,
    topic: str,
    records: int,
    group: str | None,
    fetch_size: int,
    timeout_ms: int,
    settings: tuple[tuple[str, str], ...],
    format_: str,
) -> int:
    """Read records and measure how many come."""
    from tidelog.cli.perf.consume import ConsumePlan, run_consume

    properties: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "auto.offset.reset": "earliest",
        **protection(),
        "max.partition.fetch.bytes": fetch_size,
        **({} if group is None else {"group.id": group}),
        **dict(settings),
    }
    plan = ConsumePlan(records=records, settings=properties, topic=topic, timeout_ms=timeout_ms)
    with _bar(f"reading {topic}", records) as advance:
        result = run_consume(plan, on_read=advance)
    total = result.total
    found = {
        "records": total.records,
        "seconds": round(total.elapsed_ms / 1000, 3),
        "records_per_second": round(total.records_per_s),
        "megabytes_per_second": round(total.bytes_per_s / MEGABYTE, 2),
        "rebalance_ms": round(total.rebalance_ms, 1),
    }
    _show(found, format_)
    if result.timed_out:
        say(f"Only {total.records} of {records} records came.")
        return 1
    return 0


@perf.command("end-to-end")
@bootstrap_option
@click.argument("topic")
@click.option("-n", "--records", type=click.IntRange(1), default=10_000, show_default=True)
@size_option
@click.option("--acks", type=click.Choice(["1", "all"]), default="all", show_default=True)
@format_option
@plot_option
def end_to_end(
    bootstrap: str, topic: str, records: int, record_size: int, acks: str, format_: str, plot: str | None
) -> None:
    """Measure the time from send to consumer, one record after the other."""
    from tidelog.cli.perf.payloads import RandomPayloads
    from tidelog.cli.perf.plot import check_plotting, plot_latencies
    from tidelog.cli.perf.round_trips import measure_end_to_end

    if plot:
        check_plotting()
    with _bar(f"there and back through {topic}", records) as advance:
        found = measure_end_to_end(
            topic,
            records,
            RandomPayloads(record_size),
            {"bootstrap.servers": bootstrap, "acks": acks, **protection()},
            {"bootstrap.servers": bootstrap, **protection()},
            lambda number, _: advance(number + 1),
        )
    _show({"records": records, "records_per_second": round(found.per_s), **_latencies(found.latencies)}, format_)
    if plot:
        plot_latencies(found.latencies, f"{records:,} records of {record_size:,} bytes from end to end", plot)


@perf.command()
@bootstrap_option
@click.argument("topic")
@click.option("-n", "--transactions", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--records", "records_in_each", type=click.IntRange(1), default=10, show_default=True, help="In each.")
@size_option
@click.option("--transactional-id", help="A new one without it.")
@format_option
@plot_option
def transactions(
    bootstrap: str,
    topic: str,
    transactions: int,
    records_in_each: int,
    record_size: int,
    transactional_id: str | None,
    format_: str,
    plot: str | None,
) -> None:
    """Measure transactions from begin to commit, one after the other."""
    from tidelog.cli.perf.payloads import RandomPayloads
    from tidelog.cli.perf.plot import check_plotting, plot_latencies
    from tidelog.cli.perf.round_trips import measure_transactions

    if plot:
        check_plotting()
    settings = {"bootstrap.servers": bootstrap, **protection()}
    settings["transactional.id"] = transactional_id or f"tidelog-perf-{uuid.uuid4()}"
    with _bar(f"transactions in {topic}", transactions) as advance:
        found = measure_transactions(
            topic,
            transactions,
            records_in_each,
            RandomPayloads(record_size),
            settings,
            lambda number, _: advance(number + 1),
        )
    rates = {
        "transactions_per_second": round(found.per_s, 1),
        "records_per_second": round(found.per_s * records_in_each),
    }
    _show({"transactions": transactions, **rates, **_latencies(found.latencies)}, format_)
    if plot:
        plot_latencies(found.latencies, f"{transactions:,} transactions of {records_in_each:,} records", plot)


def _latencies(latencies: Any) -> dict[str, float]:
    p50, p95, p99, p999 = latencies.percentiles_ms()
    return {
        "average_ms": round(latencies.average_ms, 2),
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "p999_ms": p999,
        "max_ms": round(latencies.max_ms, 2),
    }


def _show(found: dict[str, Any], format_: str) -> None:
    if format_ == "json":
        write_json(found)
    else:
        write_table(["", ""], [(name.replace("_", " "), f"{value:,}") for name, value in found.items()])


@contextlib.contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function that is told how far it is; a bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
