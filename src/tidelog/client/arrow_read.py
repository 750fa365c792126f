"""A partition as Arrow record batches, from one offset to another: for Spark, data frames and everyone in a hurry.

While one answer is decoded the next is already on its way. Memory is bounded by two answers and the rows of one, never
by the size of the partition. Needs `tidelog[arrow]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidelog.client.admin import accepted, list_offsets
from tidelog.client.cluster import Cluster
from tidelog.client.connection import Connection
from tidelog.client.core.described import LATEST
from tidelog.client.core.fetch_session import FetchSession, Limits, Wanted
from tidelog.client.deadline import Deadline
from tidelog.client.errors import ClientError, Rejected, RequestExpired, code_of
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_EPOCH, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.batch import iter_headers
from tidelog.wire.columns.decode import decode_each
from tidelog.wire.columns.layout import ALL_COLUMNS
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

FETCH_BYTES: Final = 4 * 1024 * 1024
FETCH_WAIT_S: Final = 0.5
REQUEST_TIMEOUT_S: Final = 30.0
# How long a reader waits for a record that should be there.
PATIENCE_S: Final = 60.0


def read_partition(
    cluster: Cluster,
    topic: str,
    partition: int,
    start: int,
    end: int | None = None,
    columns: Sequence[str] = ALL_COLUMNS,
    *,
    read_committed: bool = False,
    fetch_bytes: int = FETCH_BYTES,
    patience_s: float = PATIENCE_S,
) -> Iterator[Any]:
    """Record batches with the rows from offset `start` on and before `end`; None is the end that the partition has now.

    Leaders that move and connections that break are coped with. Rejected for an offset that the partition does not
    have any more; RequestExpired when nothing came for `patience_s`.
    """
    place = TopicPartition(TopicName(topic), PartitionIndex(partition))
    if end is None:
        answers = list_offsets(cluster, {place: LATEST}, read_committed, cluster.deadline())
        end = accepted(answers[place]).offset
    reader = PartitionReader(cluster, place, read_committed=read_committed, fetch_bytes=fetch_bytes)
    try:
        yield from _rows(reader, place, start, end, columns, patience_s)
    finally:
        reader.close()


def _rows(
    reader: PartitionReader, place: TopicPartition, start: int, end: int, columns: Sequence[str], patience_s: float
) -> Iterator[Any]:
    position = start
    deadline = Deadline(patience_s)
    while position < end:
        fetched = reader.fetch(Offset(position), end, deadline)
        if fetched is None:
            if not deadline.remaining_s():
                raise RequestExpired(f"{place} should have offsets up to {end}, but nothing came from {position} on.")
            continue
        try:
            pieces = decode_each(
                fetched.data, columns=columns, start=position, end=end, aborted=fetched.aborted, of=place
            )
            for batch, next_offset in pieces:
                position = next_offset
                if batch.num_rows:
                    yield batch
        except ProtocolError as error:
            raise Rejected(error.code, f"{place} cannot be read at offset {position}: {error}") from None
        deadline = Deadline(patience_s)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What an answer brought."""

    data: memoryview
    aborted: Sequence[Any] | None


@dataclass(frozen=True, slots=True)
class _Asked:
    connection: Connection
    correlation_id: int
    position: Offset


class PartitionReader:
    """Fetches one partition, one answer ahead of who reads. Not for two threads at once."""

    def __init__(
        self, cluster: Cluster, place: TopicPartition, *, read_committed: bool = False, fetch_bytes: int = FETCH_BYTES
    ) -> None:
        self._cluster = cluster
        self._place = place
        self._read_committed = read_committed
        self._fetch_bytes = fetch_bytes
        self._limits = Limits(int(FETCH_WAIT_S * 1000), 1, fetch_bytes, read_committed)
        self._session = FetchSession(enabled=False)
        self._asked: _Asked | None = None

    def fetch(self, position: Offset, end: int, deadline: Deadline) -> Fetched | None:
        """The batches at a position; None when there was nothing new, or something went wrong that may pass.

        What follows them, if it lies before `end`, is asked for before this returns.
        """
        try:
            if self._asked is None or self._asked.position != position:
                self._ask(position, deadline)
            asked, self._asked = self._asked, None
            assert asked is not None
            answer = asked.connection.receive(asked.correlation_id, FetchResponse, Deadline(REQUEST_TIMEOUT_S))
            data = self._partition_data(answer)
            found = None if data is None else self._found(data, position)
            if found is not None:
                *_, (_, last) = iter_headers(found.data)
                if last.next_offset < end:
                    self._ask(last.next_offset, deadline)
            return found
        except ClientError as error:
            if not error.retriable or _is_gone(error):
                raise
            self._asked = None
            self._cluster.forget([self._place.topic])
            if not deadline.pause():
                raise
            return None
        except ProtocolError as error:
            raise Rejected(error.code, f"{self._place} cannot be read at offset {position}: {error}") from None

    def close(self) -> None:
        """Let an answer go that is still on its way."""
        if self._asked is not None:
            self._asked.connection.abandon(self._asked.correlation_id)
            self._asked = None

    def _ask(self, position: Offset, deadline: Deadline) -> None:
        within = deadline.within(REQUEST_TIMEOUT_S)
        connection = self._cluster.connection(self._cluster.leader(self._place, within), within)
        view = self._cluster.view
        known = view.partition(self._place)
        epoch = NO_EPOCH if known is None else known.leader_epoch
        wanted = {self._place: Wanted(position, epoch, self._fetch_bytes)}
        request = self._session.request(wanted, {self._place.topic: view.topics[self._place.topic]}, self._limits)
        version = connection.version_of(FetchRequest, self._session.newest_version())
        self._asked = _Asked(connection, connection.send(request, version, within), position)

    def _partition_data(self, answer: FetchResponse) -> PartitionData | None:
        if not self._session.answered(answer):
            raise Rejected(code_of(answer.error_code))
        for topic in answer.responses:
            for data in topic.partitions:
                return data
        return None

    def _found(self, data: PartitionData, position: Offset) -> Fetched | None:
        code = code_of(data.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise Rejected(code, f"Offset {position} of {self._place} is outside of what the partition holds.")
        if code:
            raise Rejected(code)
        records = data.records
        if not records or next(iter_headers(records), None) is None:
            return None
        return Fetched(memoryview(records), data.aborted_transactions if self._read_committed else None)


def _is_gone(error: ClientError) -> bool:
    """The metadata does not have the topic or partition: waiting would not bring it back."""
    return isinstance(error, Rejected) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
