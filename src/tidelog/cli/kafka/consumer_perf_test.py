"""kafka-consumer-perf-test: reads records and prints how many came in which time, in Kafka's columns."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KafkaParser, properties_of, warn
from tidelog.cli.kafka.java_dates import show_java_date

if TYPE_CHECKING:
    from tidelog.cli.perf.consume import ConsumeResult, ConsumeTally

MEBIBYTE: Final = 1024 * 1024
MILLISECONDS: Final = 1000.0
DATE_FORMAT: Final = "yyyy-MM-dd HH:mm:ss:SSS"
FETCH_COLUMNS: Final = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
# Settings of Java's consumer that say nothing to ours.
JAVA_ONLY: Final = frozenset({"key.deserializer", "value.deserializer", "receive.buffer.bytes", "send.buffer.bytes"})


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    parser = _parser()
    options = parser.read(_apart(arguments))
    parser.require(options, "bootstrap-server")
    if (options.topic is None) == (options.include is None):
        parser.error("Exactly one of --topic and --include is required.")
    if options.messages is not None:
        print("Warning: --messages is deprecated. Use --num-records instead.")
    records = options.num_records if options.num_records is not None else options.messages
    if records is None:
        parser.error('Missing required argument "[num-records]"')
    from tidelog.cli.perf.consume import ConsumePlan, run_consume

    plan = ConsumePlan(
        records=records,
        settings=_settings(options),
        topic=options.topic,
        include=options.include,
        timeout_ms=options.timeout,
        reporting_interval_ms=options.reporting_interval,
    )
    if not options.hide_header:
        first = "time, threadId" if options.show_detailed_stats else "start.time, end.time"
        print(f"{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, {FETCH_COLUMNS}", flush=True)
    seen = _Seen()

    def on_window(window: ConsumeTally) -> None:
        if options.show_detailed_stats:
            seen.add(window)
            print(_detailed(window, seen, options.date_format), flush=True)

    result = run_consume(plan, on_window)
    if result.timed_out:
        print(
            f"WARNING: Exiting before consuming the expected number of records: timeout ({options.timeout} ms) "
            "exceeded. You can use the --timeout option to increase the timeout."
        )
    if not options.show_detailed_stats:
        print(_summary(result.total, options.date_format))
    if options.print_metrics:
        _print_metrics(result)
    return 0


def _parser() -> KafkaParser:
    parser = KafkaParser("kafka-consumer-perf-test", "Measures how fast records are read.")
    parser.option("--bootstrap-server", "HOST:PORT,…", "The brokers to connect to.")
    parser.old("--broker-list", "--bootstrap-server")
    parser.old("--zookeeper", "--bootstrap-server")
    parser.option("--topic", "TOPIC", "What to read.")
    parser.option("--include", "REGEX", "A pattern of topics instead.")
    parser.option("--num-records", "N", "How many records.", type=int)
    parser.option("--messages", "N", "The same, older.", type=int)
    parser.option("--group", "GROUP", "Join this group; without it all partitions are read.")
    parser.option("--fetch-size", "BYTES", "Of one partition in one request.", type=int, default=MEBIBYTE)
    parser.option("--socket-buffer-size", "BYTES", "Taken, and left to the system.", type=int)
    parser.flag("--from-latest", "Begin at the end where the group has no offset.")
    parser.option("--timeout", "MS", "End when nothing came for so long.", type=int, default=10_000)
    parser.option("--reporting-interval", "MS", "How often details are printed.", type=int, default=5000)
    parser.option("--date-format", "FORMAT", "Of times, as Java writes it.", default=DATE_FORMAT)
    parser.flag("--show-detailed-stats", "Print a line for each interval.")
    parser.flag("--hide-header", "Print no names of columns.")
    parser.flag("--print-metrics", "Print what the consumer counted.")
    parser.option("--threads", "N", "Taken, and without effect, as in Kafka.", type=int)
    parser.option("--num-fetch-threads", "N", "Taken, and without effect, as in Kafka.", type=int)
    parser.option("--command-property", "KEY=VALUE", "A property of the consumer; may be repeated.", action="append")
    parser.option("--command-config", "FILE", "Properties of the consumer.")
    parser.old("--consumer.config", "--command-config")
    return parser


def _apart(arguments: Sequence[str]) -> list[str]:
    """Notes and scripts hold `benchmark--fetch-size 1048576`: a space was lost between a value and an option."""
    found: list[str] = []
    for argument in arguments:
        value, dashes, option = argument.partition("--")
        if value and dashes and option in ("fetch-size", "messages", "num-records") and not argument.startswith("-"):
            warn(f"'{argument}' lacks a space; it is read as '{value} --{option}'.")
            found += (value, f"--{option}")
        else:
            found.append(argument)
    return found


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "client.id": "perf-consumer-client",
        "max.partition.fetch.bytes": options.fetch_size,
        "auto.offset.reset": "latest" if options.from_latest else "earliest",
        **properties_of(options.command_property, options.command_config),
        "bootstrap.servers": options.bootstrap_server,
    }
    if options.group is not None:
        settings["group.id"] = options.group
    if options.include is not None and "group.id" not in settings and not options.include:
        raise BadInput("--include is empty.")
    return {name: value for name, value in settings.items() if name not in JAVA_ONLY}


class _Seen:
    """What all intervals together brought."""

    def __init__(self) -> None:
        self.records = 0
        self.size_bytes = 0

    def add(self, window: ConsumeTally) -> None:
        self.records += window.records
        self.size_bytes += window.size_bytes


def _summary(total: ConsumeTally, date_format: str) -> str:
    began, ended = (_date(moment, date_format) for moment in (total.began_at, total.ended_at))
    return f"{began}, {ended}, {_numbers(total, total.size_bytes, total.records)}"


def _detailed(window: ConsumeTally, seen: _Seen, date_format: str) -> str:
    """Totals so far, rates of this interval."""
    return f"{_date(window.ended_at, date_format)}, 0, {_numbers(window, seen.size_bytes, seen.records)}"


def _numbers(tally: ConsumeTally, size_bytes: int, records: int) -> str:
    fetch_s = tally.fetch_ms / MILLISECONDS or 1 / MILLISECONDS
    return (
        f"{size_bytes / MEBIBYTE:.4f}, {tally.bytes_per_s / MEBIBYTE:.4f}, {records}, {tally.records_per_s:.4f}, "
        f"{tally.rebalance_ms:.0f}, {tally.fetch_ms:.0f}, {tally.size_bytes / MEBIBYTE / fetch_s:.4f}, "
        f"{tally.records / fetch_s:.4f}"
    )


def _date(moment_s: float, date_format: str) -> str:
    return show_java_date(datetime.fromtimestamp(moment_s), date_format)


def _print_metrics(result: ConsumeResult) -> None:
    total = result.total
    metrics = {"bytes-consumed-total": total.size_bytes, "records-consumed-total": total.records}
    width = max(map(len, metrics)) + len("consumer-fetch-manager-metrics:")
    print(f"\n{'Metric Name':<{width}} Value")
    for name, value in metrics.items():
        print(f"{'consumer-fetch-manager-metrics:' + name:<{width}} : {value:.3f}")
