"""kafka-producer-perf-test: writes records and prints how many went out and how long each took, in Kafka's words."""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KafkaParser, properties_of

if TYPE_CHECKING:
    from tidelog.cli.perf.payloads import Payloads
    from tidelog.cli.perf.produce import ProduceResult, Tally

MEBIBYTE: Final = 1024 * 1024
TRANSACTION_MS: Final = 3000
# Settings of Java's producer that say nothing to ours.
JAVA_ONLY: Final = frozenset({"key.serializer", "value.serializer", "send.buffer.bytes", "receive.buffer.bytes"})


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    parser = _parser()
    options = parser.read(arguments)
    parser.require(options, "topic", "num-records", "throughput")
    given = [options.record_size is not None, options.payload_file is not None, options.payload_monotonic]
    if sum(given) != 1:
        parser.error("Exactly one of --record-size, --payload-file and --payload-monotonic is required.")
    from tidelog.cli.perf.produce import ProducePlan, run_produce

    settings = _settings(options)
    plan = ProducePlan(
        topic=options.topic,
        records=options.num_records,
        payloads=_payloads(options),
        settings=settings,
        throughput=options.throughput,
        warm_up_records=options.warmup_records,
        reporting_interval_ms=options.reporting_interval,
        transaction_ms=(options.transaction_duration_ms or TRANSACTION_MS) if "transactional.id" in settings else None,
    )
    result = run_produce(plan, _print_window, lambda: print("In steady state.", flush=True))
    _print_total(result.total, "")
    if result.steady is not None:
        _print_total(result.steady, " steady state")
    if options.print_metrics:
        _print_metrics(result)
    if result.first_error is not None:
        print(f"{result.failed} records were not written: {result.first_error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> KafkaParser:
    parser = KafkaParser("kafka-producer-perf-test", "Measures how fast records are written.")
    parser.option("--bootstrap-server", "HOST:PORT,…", "The brokers to connect to.")
    parser.option("--topic", "TOPIC", "Where to write.")
    parser.option("--num-records", "N", "How many records.", type=int)
    parser.option("--throughput", "RATE", "Records a second at most; -1 for no limit.", type=float)
    parser.option("--record-size", "BYTES", "Records of random letters.", type=int)
    parser.option("--payload-file", "FILE", "Records are lines of this file, drawn by lot.")
    parser.option("--payload-delimiter", "TEXT", "What is between them instead of a line end.", default="\\n")
    parser.flag("--payload-monotonic", "Records are numbers that count up.")
    # As many of KEY=VALUE as follow, as Kafka's tool takes them.
    parser.add_argument("--command-property", metavar="KEY=VALUE", nargs="+", action="extend", help="Of the producer.")
    parser.add_argument("--producer-props", metavar="KEY=VALUE", nargs="+", action="extend", help="The same, older.")
    parser.option("--command-config", "FILE", "Properties of the producer.")
    parser.old("--producer.config", "--command-config")
    parser.flag("--print-metrics", "Print what the producer counted.")
    parser.option("--transactional-id", "ID", "Write in transactions under this id.")
    parser.option("--transaction-duration-ms", "MS", "How long each transaction is open.", type=int)
    parser.option("--warmup-records", "N", "The first records, left out of a second summary.", type=int, default=0)
    parser.option("--reporting-interval", "MS", "How often progress is printed.", type=int, default=5000)
    return parser


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    if options.producer_props:
        print(
            "Option --producer-props has been deprecated and will be removed in a future version. "
            "Use --command-property instead."
        )
    pairs = [*(options.producer_props or ()), *(options.command_property or ())]
    settings: dict[str, Any] = dict(properties_of(pairs, options.command_config))
    if options.bootstrap_server:
        settings["bootstrap.servers"] = options.bootstrap_server
    if not settings.get("bootstrap.servers"):
        raise BadInput("At least one of --bootstrap-server, --command-property or --command-config must be specified.")
    settings.setdefault("client.id", "perf-producer-client")
    if options.transactional_id:
        settings["transactional.id"] = options.transactional_id
    elif options.transaction_duration_ms is not None:
        if options.transaction_duration_ms <= 0:
            raise BadInput("--transaction-duration-ms should be greater than zero.")
        settings.setdefault("transactional.id", f"performance-producer-{uuid.uuid4()}")
    return {name: value for name, value in settings.items() if name not in JAVA_ONLY}


def _payloads(options: argparse.Namespace) -> Payloads:
    from tidelog.cli.perf.payloads import CountingPayloads, RandomPayloads, payloads_in

    if options.payload_file is not None:
        print(f"Reading payloads from: {options.payload_file}")
        return payloads_in(options.payload_file, options.payload_delimiter)
    if options.payload_monotonic:
        return CountingPayloads()
    if options.record_size <= 0:
        raise BadInput("--record-size should be greater than zero.")
    return RandomPayloads(options.record_size)


def _print_window(tally: Tally) -> None:
    latencies = tally.latencies
    print(
        f"{tally.records} records sent, {tally.records_per_s:.1f} records/sec "
        f"({tally.bytes_per_s / MEBIBYTE:.2f} MB/sec), {latencies.average_ms:.1f} ms avg latency, "
        f"{latencies.max_ms:.1f} ms max latency.",
        flush=True,
    )


def _print_total(tally: Tally, kind: str) -> None:
    latencies = tally.latencies
    p50, p95, p99, p999 = (round(milliseconds) for milliseconds in latencies.percentiles_ms())
    print(
        f"{tally.records}{kind} records sent, {tally.records_per_s:.6f} records/sec "
        f"({tally.bytes_per_s / MEBIBYTE:.2f} MB/sec), {latencies.average_ms:.2f} ms avg latency, "
        f"{latencies.max_ms:.2f} ms max latency, {p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th."
    )


def _print_metrics(result: ProduceResult) -> None:
    total = result.total
    metrics = {
        "byte-total": total.size_bytes,
        "record-error-total": result.failed,
        "record-send-rate": total.records_per_s,
        "record-send-total": total.records,
        "txn-commit-total": result.transactions,
    }
    width = max(map(len, metrics)) + len("producer-metrics:")
    print(f"\n{'Metric Name':<{width}} Value")
    for name, value in metrics.items():
        print(f"{'producer-metrics:' + name:<{width}} : {value:.3f}")
