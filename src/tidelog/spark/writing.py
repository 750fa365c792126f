"""The executor's side of a write: Arrow batches of Spark into topics, through the client's producer.

Called by the writers inside a task; whether that happens in a transaction is theirs to decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.client.blocking.producer import Producer
from tidelog.spark.errors import InvalidOption
from tidelog.spark.write_options import WriteOptions

# Tables on their way at once; with them the memory of a task is bounded by the producer's own buffer.
DELIVERIES_MAX: Final = 64


def producer_of(options: WriteOptions, **settings: str) -> Producer:
    """A producer with what the user set and what the sink needs."""
    given = {**options.producer, **dict(options.protection)}
    return Producer({"bootstrap.servers": options.bootstrap_servers, **given, **settings})


def write_rows(producer: Producer, batches: Iterable[Any], options: WriteOptions) -> Counter[str]:
    """Write all rows and wait until each is in the log; how many went to which topic."""
    written: Counter[str] = Counter()
    waiting: list[Any] = []
    for batch in batches:
        for topic, rows in by_topic(batch, options.topic):
            for part, partition in _by_choice(rows):
                # A column "timestamp" is not taken: as in Spark's connector, records have the time of their writing.
                waiting.append(producer.send_table(topic, part, timestamp=None, partition=partition))
            written[topic] += rows.num_rows
        while len(waiting) > DELIVERIES_MAX:
            waiting.pop(0).result()
    for delivery in waiting:
        delivery.result()
    return written


def by_topic(batch: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    """The rows of a batch for each topic."""
    if topic is not None:
        yield topic, batch
        return
    column = batch.column("topic")
    if column.null_count:
        raise InvalidOption("A row has null in its column 'topic', and option topic is not set.")
    names = pc.unique(column).to_pylist()
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(pc.equal(column, name))


def _by_choice(rows: Any) -> Iterator[tuple[Any, str | None]]:
    """Rows that name their partition, and rows that leave it to their key."""
    if "partition" not in rows.schema.names:
        yield rows, None
        return
    column = rows.column("partition")
    if column.null_count == 0:
        yield rows, "partition"
    elif column.null_count == len(column):
        yield rows, None
    else:
        yield rows.filter(column.is_valid()), "partition"
        yield rows.filter(column.is_null()), None
