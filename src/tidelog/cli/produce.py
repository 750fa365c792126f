"""`tidelog produce`: lines of standard input or of a file become records."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click
import msgspec

from tidelog.cli.failures import BadInput
from tidelog.cli.line_records import LineFormat, lines_of
from tidelog.cli.options import KeyValue, bootstrap_option, connect, format_option, protection
from tidelog.cli.output import say, write_json
from tidelog.cli.record_json import RecordInput, read_record
from tidelog.model.ids import TopicName

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster
    from tidelog.client.core.record import RecordMetadata
    from tidelog.client.errors import ClientError

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: Final = ("0", "1", "all", "-1")
ALL_ACKS: Final = ("all", "-1")
CLIENT_ID: Final = "tidelog-cli"
ERRORS_SHOWN: Final = 3
# A topic that a broker creates at its first mention takes a moment to have leaders.
TOPIC_WAIT_S: Final = 3.0


@click.command()
@click.argument("topic")
@click.option(
    "-f", "--file", type=click.Path(exists=True, dir_okay=False), help="Read this file instead of standard input."
)
@click.option(
    "-i",
    "--input",
    "input_",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="A value per line, or a JSON object per line as `consume --format json` writes them.",
)
@click.option("-k", "--key-separator", metavar="TEXT", help="What stands between key and value in a line.")
@click.option("--key", help="The key of every record.")
@click.option(
    "-H", "--header", "headers", type=KeyValue(), multiple=True, help="A header of every record; may be repeated."
)
@click.option("--null", "null_marker", metavar="TEXT", help="A key or value that is this text becomes null.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Write to this partition, whatever the key.")
@click.option("-z", "--compression", type=click.Choice(CODECS), default="none", show_default=True)
@click.option(
    "--acks",
    type=click.Choice(ACKS),
    default="all",
    show_default=True,
    help="Who has to have a record before it counts as written.",
)
@click.option("--idempotent/--no-idempotent", default=True, show_default=True, help="Let a retry never write twice.")
@bootstrap_option
@format_option
def produce(
    topic: str,
    file: str | None,
    input_: str,
    key_separator: str | None,
    key: str | None,
    headers: tuple[tuple[str, str], ...],
    null_marker: str | None,
    partition: int | None,
    compression: str,
    acks: str,
    idempotent: bool,
    bootstrap: str,
    format_: str,
) -> int:
    """Write lines to a TOPIC."""
    from tidelog.client.blocking.producer import Producer

    line_format = LineFormat(
        parse_key=key_separator is not None,
        key_separator=(key_separator or "\t").encode(),
        null_marker=None if null_marker is None else null_marker.encode(),
    )
    fixed_headers = tuple((name, value.encode()) for name, value in headers)
    fixed_key = None if key is None else key.encode()
    results = Results()
    with connect(bootstrap) as cluster:
        _check_topic(cluster, topic, partition)
    with Producer(
        protection(),
        bootstrap_servers=bootstrap,
        client_id=CLIENT_ID,
        acks=acks,
        compression_type=compression,
        enable_idempotence=idempotent and acks in ALL_ACKS,
    ) as producer:
        if file is None and sys.stdin.isatty():
            say("Each line becomes a record. End with Ctrl-D.")
        descriptor = sys.stdin.fileno() if file is None else os.open(file, os.O_RDONLY)
        try:
            for record in _records(descriptor, input_, line_format):
                if record is None:
                    producer.flush()
                    continue
                chosen = record.partition if partition is None else partition
                producer.send(
                    topic,
                    record.value,
                    fixed_key if record.key is None else record.key,
                    partition=chosen,
                    headers=record.headers + fixed_headers,
                    timestamp_ms=record.timestamp_ms,
                    on_delivery=results.add,
                )
        except KeyboardInterrupt:
            say("")
    results.report(topic, format_)
    return int(bool(results.errors))


class Results:
    """What became of the records."""

    def __init__(self) -> None:
        self.written = 0
        self.by_partition: Counter[int] = Counter()
        self.errors: Counter[str] = Counter()

    def add(self, metadata: RecordMetadata | None, error: ClientError | None) -> None:
        if metadata is None:
            self.errors[str(error)] += 1
        else:
            self.written += 1
            self.by_partition[metadata.partition] += 1

    def report(self, topic: str, format_: str) -> None:
        records = "1 record" if self.written == 1 else f"{self.written} records"
        say(f"Wrote {records} to '{topic}'.")
        for sentence, count in self.errors.most_common(ERRORS_SHOWN):
            say(f"Error: {count} not written: {sentence}")
        if format_ == "json":
            partitions = {str(partition): count for partition, count in sorted(self.by_partition.items())}
            write_json(
                {"topic": topic, "written": self.written, "failed": self.errors.total(), "partitions": partitions}
            )


def _records(descriptor: int, input_: str, line_format: LineFormat) -> Iterator[RecordInput | None]:
    for number, line in enumerate(lines_of(descriptor), 1):
        if line is None:
            yield None
        elif input_ == "json":
            try:
                yield read_record(line)
            except (msgspec.MsgspecError, ValueError) as error:
                raise BadInput(f"Line {number} is no record in JSON: {error}.") from None
        else:
            key, value, headers = line_format.read(line, number)
            yield RecordInput(key, value, headers)


def _check_topic(cluster: Cluster, topic: str, partition: int | None) -> None:
    """Say at once, not after the first line, when there is no such topic or partition."""
    found = cluster.retry(
        lambda deadline: cluster.topic(TopicName(topic), deadline, create=True),
        cluster.deadline(TOPIC_WAIT_S),
        await_topic=True,
    )
    count = len(found.partitions)
    if partition is not None and partition >= count:
        raise BadInput(f"Topic '{topic}' has {count} partitions, but no partition {partition}.")
