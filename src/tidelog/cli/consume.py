"""`tidelog consume`: records of a topic on standard output, up to its end or on and on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from tidelog.cli.failures import BadInput
from tidelog.cli.options import Moment, bootstrap_option, connect, format_option, protection
from tidelog.cli.output import say
from tidelog.cli.record_json import write_record
from tidelog.model.ids import Offset, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.blocking.consumer import Consumer
    from tidelog.client.core.record import ConsumerRecord

# The special times of ListOffsets; the client that also names them is imported only when the command runs.
LATEST: Final = -1
EARLIEST: Final = -2
POLL_S: Final = 1.0
RECORDS_PER_POLL: Final = 5_000
CLIENT_ID: Final = "tidelog-cli"
DIM: Final = "\x1b[2m"
CYAN: Final = "\x1b[36m"
GREEN: Final = "\x1b[32m"
PLAIN: Final = "\x1b[0m"
NULL: Final = b"null"


@click.command()
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest record; so it is without --follow, too.")
@click.option("--offset", type=click.IntRange(min=0), help="Begin at this offset of each partition.")
@click.option("--from-time", type=Moment(), help="Begin at a time: 2026-01-31T12:00, or -15m for 15 minutes ago.")
@click.option("--last", type=click.IntRange(min=0), help="Begin this many records before the end of each partition.")
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this one; may be repeated."
)
@click.option("-n", "--max", "maximum", type=click.IntRange(min=0), help="End after this many records.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on. Ctrl-C ends it.")
@click.option("--keys", is_flag=True, help="Show keys.")
@click.option("--headers", is_flag=True, help="Show headers.")
@click.option("--timestamps", is_flag=True, help="Show timestamps.")
@click.option("--offsets", "show_offsets", is_flag=True, help="Show partition and offset.")
@click.option("--committed", is_flag=True, help="Leave out what belongs to transactions that did not commit.")
@bootstrap_option
@format_option
def consume(
    topic: str,
    from_beginning: bool,
    offset: int | None,
    from_time: int | None,
    last: int | None,
    partitions: tuple[int, ...],
    maximum: int | None,
    follow: bool,
    keys: bool,
    headers: bool,
    timestamps: bool,
    show_offsets: bool,
    committed: bool,
    bootstrap: str,
    format_: str,
) -> None:
    """Read records of a TOPIC: all there are, or with --follow those to come."""
    from tidelog.client.admin import Admin
    from tidelog.client.blocking.consumer import Consumer

    if sum([from_beginning, offset is not None, from_time is not None, last is not None]) > 1:
        raise click.UsageError("Only one of --from-beginning, --offset, --from-time and --last can be given.")
    show = _json_line if format_ == "json" else _lines(keys, headers, timestamps, show_offsets)
    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        wanted = partitions_of(admin, topic, partitions)
        ends = None if follow else admin.offsets_at(wanted, LATEST)
        begins = _begins(admin, wanted, offset, from_time, last, at_end=follow and not from_beginning)
    with Consumer(
        protection(),
        bootstrap_servers=bootstrap,
        client_id=CLIENT_ID,
        isolation_level="read_committed" if committed else "read_uncommitted",
        auto_offset_reset="earliest",
        max_poll_records=RECORDS_PER_POLL,
    ) as consumer:
        consumer.assign(wanted)
        for partition, begin in begins.items():
            consumer.seek(partition, begin)
        try:
            count = _read(consumer, maximum, ends, show)
        except KeyboardInterrupt:
            return
    if sys.stdout.isatty() and not count:
        say(f"Topic '{topic}' has no records there. --follow waits for new ones.")


def partitions_of(admin: Admin, topic: str, chosen: tuple[int, ...]) -> list[TopicPartition]:
    """The partitions that were chosen, or all; BadInput for one that the topic does not have."""
    found = admin.partitions_of(topic)
    for partition in chosen:
        if partition >= len(found):
            raise BadInput(f"Topic '{topic}' has {len(found)} partitions, but no partition {partition}.")
    return [found[partition] for partition in sorted(set(chosen))] if chosen else found


def _begins(
    admin: Admin,
    partitions: list[TopicPartition],
    offset: int | None,
    from_time: int | None,
    last: int | None,
    *,
    at_end: bool,
) -> dict[TopicPartition, Offset]:
    """Where to begin in each partition."""
    if offset is not None:
        return dict.fromkeys(partitions, Offset(offset))
    if last is not None:
        first, end = admin.offsets_at(partitions, EARLIEST), admin.offsets_at(partitions, LATEST)
        return {partition: Offset(max(first[partition], end[partition] - last)) for partition in partitions}
    if from_time is not None:
        return admin.offsets_at(partitions, from_time)
    return admin.offsets_at(partitions, LATEST if at_end else EARLIEST)


def _read(
    consumer: Consumer,
    maximum: int | None,
    ends: dict[TopicPartition, Offset] | None,
    show: Callable[[ConsumerRecord], bytes],
) -> int:
    """Show records until there are enough or the ends are reached; how many were shown."""
    output = sys.stdout.buffer
    count = 0
    while maximum is None or count < maximum:
        if ends is not None:
            # What is written while we read is not waited for.
            ends = {partition: end for partition, end in ends.items() if consumer.position(partition) < end}
            if not ends:
                break
        for record in consumer.poll(POLL_S):
            output.write(show(record))
            count += 1
            if count == maximum:
                break
        output.flush()
    return count


def _json_line(record: ConsumerRecord) -> bytes:
    return write_record(record) + b"\n"


def _lines(keys: bool, headers: bool, timestamps: bool, offsets: bool) -> Callable[[ConsumerRecord], bytes]:
    """A function that writes the fields that were asked for, with colours on a terminal."""
    from tidelog.client.moments import show_moment

    colours = sys.stdout.isatty()

    def paint(text: bytes, colour: str) -> bytes:
        return colour.encode() + text + PLAIN.encode() if colours else text

    def show(record: ConsumerRecord) -> bytes:
        fields = []
        if timestamps:
            fields.append(paint(show_moment(record.timestamp_ms).encode(), DIM))
        if offsets:
            fields.append(paint(f"{record.topic}-{record.partition}@{record.offset}".encode(), DIM))
        if headers:
            pairs = (name.encode(errors="surrogateescape") + b"=" + _or_null(value) for name, value in record.headers)
            fields.append(paint(b",".join(pairs), GREEN))
        if keys:
            fields.append(paint(_or_null(record.key), CYAN))
        fields.append(paint(NULL, DIM) if record.value is None else record.value)
        return b"\t".join(fields) + b"\n"

    return show


def _or_null(content: bytes | None) -> bytes:
    return NULL if content is None else content
