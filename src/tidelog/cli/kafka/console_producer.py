"""kafka-console-producer: lines of standard input become records."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KafkaParser, cluster_of, properties_of, warn
from tidelog.cli.line_records import LineFormat, lines_of
from tidelog.model.ids import TopicName

if TYPE_CHECKING:
    from tidelog.client.blocking.producer import Producer
    from tidelog.client.core.pending import OnDelivery
    from tidelog.client.core.record import RecordMetadata
    from tidelog.client.errors import ClientError

ACKS: Final = ("all", "-1", "1", "0")
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PROMPT: Final = ">"
# The producer's properties that mean something here; a file may have more, such as Java's serializers.
TAKEN: Final = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "client.id",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "metadata.max.age.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.ms",
    }
)

# Options for the number of bytes, records, tries and milliseconds, each under the producer's own name for it.
NUMBERS: Final = {
    "batch-size": "batch.size",
    "max-partition-memory-bytes": "batch.size",
    "max-memory-bytes": "buffer.memory",
    "max-block-ms": "max.block.ms",
    "message-send-max-retries": "retries",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "request-timeout-ms": "request.timeout.ms",
    "retry-backoff-ms": "retry.backoff.ms",
    "socket-buffer-size": "send.buffer.bytes",
    "timeout": "linger.ms",
}
DEFAULT_LINGER_MS: Final = "1000"
DEFAULT_BATCH_BYTES: Final = "16384"


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    parser = _parser()
    options = parser.read(arguments)
    parser.require(options, "bootstrap-server", "topic")
    settings = _settings(options)
    line_format = _line_format(_reader_properties(options))
    _check(settings)
    with cluster_of(options, settings) as cluster:
        cluster.retry(lambda deadline: cluster.refresh([], deadline))
    with _producer(options.bootstrap_server, settings) as producer:
        _produce(producer, TopicName(options.topic), line_format, synchronous=options.sync)
    return 0


def _parser() -> KafkaParser:
    parser = KafkaParser("kafka-console-producer", "Reads lines from standard input and writes them to a topic.")
    parser.bootstrap()
    parser.option("--topic", "TOPIC", "The topic to write to.")
    parser.flag("--sync", "Wait for each record before the next.")
    parser.option(
        "--compression-codec", "CODEC", "none, gzip (if not said), snappy, lz4 or zstd.", nargs="?", const="gzip"
    )
    parser.option("--request-required-acks", "ACKS", "0, 1, or -1 for all replicas in sync (default).")
    for name in NUMBERS:
        parser.option(f"--{name}", "N", f"The producer's {NUMBERS[name]}.", type=int)
    parser.option("--command-property", "KEY=VALUE", "A property of the producer.", action="append")
    parser.option("--producer-property", "KEY=VALUE", argparse.SUPPRESS, action="append")
    parser.option("--producer.config", "FILE", argparse.SUPPRESS)
    parser.option("--reader-property", "KEY=VALUE", "How lines are read: parse.key, key.separator, …", action="append")
    parser.option("--property", "KEY=VALUE", argparse.SUPPRESS, action="append")
    parser.option("--reader-config", "FILE", "A file of reader properties.")
    parser.option("--line-reader", "CLASS", "Accepted for Kafka's own line reader.")
    return parser


def _reader_properties(options: argparse.Namespace) -> dict[str, str]:
    if options.property:
        if options.reader_property:
            raise BadInput("Options property and reader-property cannot be specified together.")
        warn("--property is deprecated and will be removed in a future version. Use --reader-property instead.")
    if options.line_reader and not options.line_reader.endswith("LineMessageReader"):
        raise BadInput(f"There is no line reader {options.line_reader} here; only Kafka's LineMessageReader.")
    return properties_of(options.reader_property or options.property, options.reader_config)


def _line_format(properties: Mapping[str, str]) -> LineFormat:
    def yes(name: str) -> bool:
        return properties.get(name, "").strip().lower() == "true"

    def text(name: str, default: str) -> bytes:
        return properties.get(name, default).encode()

    return LineFormat(
        parse_key=yes("parse.key"),
        parse_headers=yes("parse.headers"),
        key_separator=text("key.separator", "\t"),
        headers_delimiter=text("headers.delimiter", "\t"),
        headers_separator=text("headers.separator", ","),
        headers_key_separator=text("headers.key.separator", ":"),
        null_marker=properties["null.marker"].encode() if "null.marker" in properties else None,
        ignore_error=yes("ignore.error"),
    )


def _settings(options: argparse.Namespace) -> dict[str, str]:
    """The producer's properties: from options, which give way to those from a file and on the command line."""
    if options.producer_property:
        warn(
            "--producer-property is deprecated and will be removed in a future version. Use --command-property instead."
        )
    settings = {"linger.ms": DEFAULT_LINGER_MS, "batch.size": DEFAULT_BATCH_BYTES}
    for option, name in NUMBERS.items():
        value = getattr(options, option.replace("-", "_"))
        if value is not None:
            settings[name] = str(value)
    if options.compression_codec is not None:
        settings["compression.type"] = options.compression_codec
    if options.request_required_acks is not None:
        settings["acks"] = options.request_required_acks
    file = options.command_config or getattr(options, "producer.config")
    return settings | properties_of(options.command_property or options.producer_property, file)


def _check(settings: Mapping[str, str]) -> None:
    """Refuse what Kafka's producer refuses, in its words."""
    acks, codec = settings.get("acks", "all"), settings.get("compression.type", "none")
    if acks not in ACKS:
        raise BadInput(f"Invalid value {acks} for configuration acks: String must be one of: all, -1, 0, 1")
    if codec not in CODECS:
        names = ", ".join(CODECS)
        raise BadInput(f"Invalid value {codec} for configuration compression.type: String must be one of: {names}")


def _producer(bootstrap: str, settings: Mapping[str, str]) -> Producer:
    from tidelog.client.blocking.producer import Producer
    from tidelog.client.core.java_security import security_settings

    taken = {name: value for name, value in settings.items() if name in TAKEN} | security_settings(settings)
    return Producer({"client.id": "console-producer", **taken, "bootstrap.servers": bootstrap})


def _produce(producer: Producer, topic: TopicName, line_format: LineFormat, *, synchronous: bool) -> None:
    from tidelog.client.errors import Rejected

    prompting = sys.stdin.isatty()
    number = 0
    for line in lines_of(sys.stdin.fileno()):
        if line is None:
            # Whoever types sees each line arrive; what comes through a pipe is gathered into batches.
            producer.flush()
            if prompting:
                print(PROMPT, end="", flush=True)
            continue
        number += 1
        key, value, headers = line_format.read(line, number)
        report = _reporter(topic, key, value)
        try:
            producer.send(topic, value, key, headers=headers, on_delivery=report)
        except Rejected as error:
            report(None, error)
        if synchronous:
            producer.flush()


def _reporter(topic: TopicName, key: bytes | None, value: bytes | None) -> OnDelivery:
    """Says what failed, in Kafka's words; the command goes on with the next line."""

    def report(metadata: RecordMetadata | None, error: ClientError | None) -> None:
        if error is not None:
            sizes = f"key: {_size(key)}, value: {_size(value)}"
            print(f"Error when sending message to topic {topic} with {sizes} with error: {error}", file=sys.stderr)

    return report


def _size(content: bytes | None) -> str:
    return "null" if content is None else f"{len(content)} bytes"
