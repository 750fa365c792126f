"""The writers that Spark knows: of a batch, of a stream at least once, and of a stream exactly once.

`write` runs in tasks, `commit` and `abort` in the driver, each in a process of its own: all that passes between them is
in the messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidelog.spark.between_tasks import settle
from tidelog.spark.decisions import Part
from tidelog.spark.errors import InvalidOption, SinkFailed
from tidelog.spark.two_phase import SinkTransactions, can_prepare
from tidelog.spark.write_options import WriteOptions, check_columns
from tidelog.spark.writing import producer_of, write_rows

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    sink_id: str | None = None
    part: Part | None = None
    topics: tuple[str, ...] = ()


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("tidelog")`: every row is in its topic when the job is done."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _write_now(self._options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("tidelog")`, at least once: a batch that is tried again is written again."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _write_now(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Every row was written by its task."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was written stays; the batch is written again."""


class ExactlyOnceWriter(DataSourceStreamArrowWriter):
    """The same exactly once: a batch becomes readable as a whole, once, whoever is killed meanwhile."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query_id is None or batch_id is None:
            raise SinkFailed("Spark does not say which batch of which query this is.")
        sink_id = self._options.sink_id or query_id
        sink = SinkTransactions(self._options, sink_id)
        part, topics = sink.write(context.partitionId(), int(batch_id), iterator)
        settle()
        return Written(sink_id, part, tuple(topics))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = _told(messages)
        sink_id = self._sink_of(written)
        if sink_id is not None:
            topics = sorted({topic for each in written for topic in each.topics})
            parts = [each.part for each in written if each.part is not None]
            SinkTransactions(self._options, sink_id).commit(batchId, parts, topics)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = _told(messages)
        sink_id = self._sink_of(written)
        if sink_id is not None:
            parts = [each.part for each in written if each.part is not None]
            SinkTransactions(self._options, sink_id).abort(batchId, parts)

    def _sink_of(self, written: Sequence[Written]) -> str | None:
        """None when no task came far enough to tell: then the next batch that commits cleans up."""
        return self._options.sink_id or next((each.sink_id for each in written if each.sink_id is not None), None)


def stream_writer(options: WriteOptions, schema: StructType) -> DataSourceStreamArrowWriter:
    """Exactly once if it is asked for or possible. What is not possible is said."""
    if options.exactly_once is False:
        return StreamWriter(options, schema)
    hindrance = can_prepare(options)
    if hindrance is None:
        return ExactlyOnceWriter(options, schema)
    if options.exactly_once:
        message = f"Exactly once needs two-phase commit, which {options.bootstrap_servers} does not offer: {hindrance}."
        raise InvalidOption(message)
    print(f"Writing at least once: {options.bootstrap_servers} offers no two-phase commit ({hindrance}).")
    return StreamWriter(options, schema)


def _write_now(options: WriteOptions, iterator: Iterator[Any]) -> Written:
    rows = (batch for batch in iterator if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return Written()
    with producer_of(options) as producer:
        written = write_rows(producer, chain([first], rows), options)
    settle()
    return Written(topics=tuple(sorted(written)))


def _told(messages: list[WriterCommitMessage | None]) -> list[Written]:
    return [message for message in messages if isinstance(message, Written)]
