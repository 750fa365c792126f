"""A topic as a table: `tidelog.read_topic("orders", since="-1h").to_pandas()`, or Polars, DuckDB, Arrow.

Nothing is read before a `to_…` is called; what is read ends where the topic ended then. Needs `tidelog[arrow]`, and
each library only for its own method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Unpack

from tidelog.client.admin import accepted, list_offsets
from tidelog.client.arrow_read import read_partition
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import EARLIEST, LATEST
from tidelog.client.core.options import AdminOptions, read_options
from tidelog.client.core.settings_types import SecuritySettings
from tidelog.client.moments import parse_moment
from tidelog.client.security import NO_SECURITY, Security, security_of
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.wire.columns.layout import ALL_COLUMNS, KEY, VALUE, schema_of

BOOTSTRAP_SERVERS: Final = "localhost:9092"
TOPIC_WAIT_S: Final = 1.0
TEXT_COLUMNS: Final = (KEY, VALUE)

Moment = str | int | datetime
Offsets = int | Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Range:
    place: TopicPartition
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """The rows of a topic between two times or offsets, not read yet. Every `to_…` reads them anew."""

    topic: str
    bootstrap_servers: str
    since: Moment | None
    until: Moment | None
    start: Offsets | None
    end: Offsets | None
    partitions: Sequence[int] | None
    columns: Sequence[str]
    text: bool
    read_committed: bool
    security: Security = NO_SECURITY

    @property
    def schema(self) -> Any:
        """The pyarrow.Schema of the columns."""
        import pyarrow as pa  # type: ignore[import-untyped]

        schema = schema_of(self.columns)
        for index, name in enumerate(self.columns):
            if self.text and name in TEXT_COLUMNS:
                schema = schema.set(index, pa.field(name, pa.string()))
        return schema

    def to_batches(self) -> Iterator[Any]:
        """Arrow record batches, one partition after the other, as they are fetched."""
        schema = self.schema
        with Cluster(self.bootstrap_servers, security=self.security) as cluster:
            for range_ in self._ranges(cluster):
                place = range_.place
                for batch in read_partition(
                    cluster,
                    place.topic,
                    place.partition,
                    range_.start,
                    range_.end,
                    self.columns,
                    read_committed=self.read_committed,
                ):
                    yield batch.cast(schema) if self.text else batch

    def to_reader(self) -> Any:
        """A pyarrow.RecordBatchReader: what reads Arrow streams reads the topic without holding it."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> Any:
        """A pyarrow.Table."""
        return self.to_reader().read_all()

    def to_pandas(self, **options: Any) -> Any:
        """A pandas.DataFrame; options are those of pyarrow.Table.to_pandas."""
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> Any:
        """A polars.DataFrame."""
        import polars  # type: ignore[import-not-found,unused-ignore]

        return polars.from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any = None) -> Any:
        """A DuckDB relation, to be queried with `.filter`, `.aggregate` or `.query("orders", "select …")`."""
        import duckdb  # type: ignore[import-not-found,unused-ignore]

        return (connection or duckdb).from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Arrow's own interface, by which other libraries take the topic as a stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _ranges(self, cluster: Cluster) -> list[_Range]:
        """From where to where each partition is read, as the cluster knows it now."""
        found = cluster.retry(
            lambda deadline: cluster.topic(TopicName(self.topic), deadline),
            cluster.deadline(TOPIC_WAIT_S),
            await_topic=True,
        )
        chosen = range(len(found.partitions)) if self.partitions is None else self.partitions
        places = [TopicPartition(found.name, PartitionIndex(index)) for index in chosen]
        first = self._offsets(cluster, places, EARLIEST)
        last = self._offsets(cluster, places, LATEST)
        starts = first if self.since is None else self._offsets(cluster, places, _milliseconds(self.since))
        ends = last if self.until is None else self._offsets(cluster, places, _milliseconds(self.until))
        ranges = []
        for place in places:
            # Where no record is that young, the broker has no offset: then it is the end.
            start = starts[place] if starts[place] >= 0 else last[place]
            end = ends[place] if ends[place] >= 0 else last[place]
            start = max(start, first[place], _of(self.start, place, first[place]))
            end = min(end, last[place], _of(self.end, place, last[place]))
            ranges.append(_Range(place, start, end))
        return ranges

    def _offsets(self, cluster: Cluster, places: Sequence[TopicPartition], timestamp_ms: int) -> dict[Any, int]:
        answers = list_offsets(cluster, dict.fromkeys(places, timestamp_ms), self.read_committed, cluster.deadline())
        return {place: accepted(answer).offset for place, answer in answers.items()}


def read_topic(
    topic: str,
    bootstrap_servers: str = BOOTSTRAP_SERVERS,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    start: Offsets | None = None,
    end: Offsets | None = None,
    partitions: Sequence[int] | None = None,
    columns: Sequence[str] = ALL_COLUMNS,
    text: bool = False,
    read_committed: bool = False,
    properties: Mapping[str, Any] | None = None,
    **settings: Unpack[SecuritySettings],
) -> TopicTable:
    """A topic as a table.

    `since`, `until`: "-1h", "2026-01-31T12:00", milliseconds since 1970 or a datetime; records at `until` are not in
    it. `start`, `end`: offsets, one for all partitions or one for each. `text`: keys and values as text instead of
    bytes. Fewer `columns` are quicker to read. TLS and SASL: the settings of a client (`security_protocol`, …), also
    as a mapping of Kafka's dotted names.
    """
    schema_of(columns)
    for moment in (since, until):
        if moment is not None:
            _milliseconds(moment)
    return TopicTable(
        topic=topic,
        bootstrap_servers=bootstrap_servers,
        since=since,
        until=until,
        start=start,
        end=end,
        partitions=partitions,
        columns=tuple(columns),
        text=text,
        read_committed=read_committed,
        security=security_of(read_options(AdminOptions, bootstrap_servers, {**(properties or {}), **settings})),
    )


def _milliseconds(moment: Moment) -> int:
    if isinstance(moment, datetime):
        return int(moment.astimezone().timestamp() * 1000)
    return parse_moment(moment) if isinstance(moment, str) else moment


def _of(offsets: Offsets | None, place: TopicPartition, otherwise: int) -> int:
    if offsets is None:
        return otherwise
    return offsets if isinstance(offsets, int) else offsets.get(place.partition, otherwise)
