"""kafka-e2e-latency: the time from send to consumer, one record after the other, in Kafka's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.cli.kafka.arguments import KafkaParser, properties_of

REPORT_EVERY: Final = 1000
POSITIONAL: Final = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size", "command-config")


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    parser = KafkaParser("kafka-e2e-latency", "Measures the time from send to consumer.")
    parser.option("--bootstrap-server", "HOST:PORT,…", "The brokers to connect to.")
    parser.option("--topic", "TOPIC", "Where to write and read; nobody else should.")
    parser.option("--num-records", "N", "How many records.", type=int)
    parser.option("--producer-acks", "1|all", "What the producer waits for.", choices=("1", "all"))
    parser.option("--record-size", "BYTES", "Random letters in each.", type=int)
    parser.option("--command-config", "FILE", "Properties of the clients.")
    options = parser.read(_named(arguments))
    parser.require(options, *POSITIONAL[:-1])
    from tidelog.cli.perf.payloads import RandomPayloads
    from tidelog.cli.perf.round_trips import measure_end_to_end

    settings = {**properties_of(None, options.command_config), "bootstrap.servers": options.bootstrap_server}

    def on_done(number: int, latency_ms: float) -> None:
        if number % REPORT_EVERY == 0:
            print(f"{number}\t{latency_ms}", flush=True)

    found = measure_end_to_end(
        options.topic,
        options.num_records,
        RandomPayloads(options.record_size),
        {**settings, "acks": options.producer_acks},
        settings,
        on_done,
    ).latencies
    p50, p99, p999 = (int(milliseconds) for milliseconds in found.percentiles_ms((50.0, 99.0, 99.9)))
    print(f"Avg latency: {found.average_ms:.4f} ms")
    print(f"Percentiles: 50th = {p50}, 99th = {p99}, 99.9th = {p999}")
    return 0


def _named(arguments: Sequence[str]) -> list[str]:
    """Kafka's older way: the values alone, in their order."""
    if not arguments or arguments[0].startswith("-"):
        return list(arguments)
    print(
        "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named "
        "arguments instead: " + ", ".join(f"--{name}" for name in POSITIONAL)
    )
    return [part for name, value in zip(POSITIONAL, arguments, strict=False) for part in (f"--{name}", value)]
