"""The executor's side of a read: one range of one partition, fetched and decoded to Arrow batches.

Called by both readers inside a Spark task. While a batch is decoded and Spark takes it, the next fetch is under way.
What a range should hold and the log does not any more is data loss, and is said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tidelog.client.cluster import Cluster
from tidelog.client.connection import Connection
from tidelog.client.core.fetch_session import FetchSession, Limits, Wanted
from tidelog.client.deadline import Deadline
from tidelog.client.errors import BrokerUnreachable, ClientError, Rejected, RequestExpired, code_of
from tidelog.model.errors import RETRIABLE, ErrorCode, ProtocolError
from tidelog.model.ids import Offset, TopicPartition
from tidelog.spark.errors import DataLoss
from tidelog.spark.options import ReadOptions
from tidelog.spark.planning import Range
from tidelog.wire.columns.decode import decode_each
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

FETCH_WAIT_MS: Final = 500
# How long a partition may have no leader, or its broker be away, before a task fails and Spark tries it elsewhere.
PATIENCE_S: Final = 60.0
# A batch above this may make Spark's Java side copy a large array; smaller ones cost more each.
ROWS_MAX: Final = 100_000


def read_range(options: ReadOptions, wanted: Range, columns: Sequence[str]) -> Iterator[Any]:
    """The records of a range as Arrow batches with the client's column names."""
    with Cluster(
        options.bootstrap_servers, client_id=options.client_id, request_timeout_s=options.request_timeout_s
    ) as cluster:
        yield from _RangeFetch(cluster, options, wanted, columns).batches()


class _RangeFetch:
    """One range while it is being read."""

    def __init__(self, cluster: Cluster, options: ReadOptions, wanted: Range, columns: Sequence[str]) -> None:
        self._cluster = cluster
        self._options = options
        self._range = wanted
        self._columns = columns
        self._position = wanted.start
        self._limits = Limits(FETCH_WAIT_MS, 1, options.fetch_bytes, options.read_committed)
        self._patience: Deadline | None = None

    def batches(self) -> Iterator[Any]:
        in_flight: tuple[Connection, int] | None = None
        while self._position < self._range.end:
            try:
                connection, correlation_id = in_flight or self._ask()
                in_flight = None
                deadline = self._cluster.deadline(self._options.request_timeout_s)
                answer = connection.receive(correlation_id, FetchResponse, deadline)
                data = self._data(answer)
            except (BrokerUnreachable, RequestExpired, Rejected) as error:
                self._again(error)
                continue
            if data is None or not data.records:
                self._check_progress(data)
                continue
            self._patience = None
            for decoded in self._decoded(data):
                self._position = decoded.next_offset
                if self._position < self._range.end and in_flight is None:
                    in_flight = self._ask_ahead()
                for first in range(0, decoded.batch.num_rows, ROWS_MAX):
                    yield decoded.batch.slice(first, ROWS_MAX)

    def _ask(self) -> tuple[Connection, int]:
        partition = self._range.partition
        deadline = self._cluster.deadline(self._options.request_timeout_s)
        leader = self._cluster.leader(partition, deadline)
        known = self._cluster.view.partition(partition)
        assert known is not None
        connection = self._cluster.connection(leader, deadline)
        # Without a session: one partition needs none, and a broker keeps only so many.
        session = FetchSession(enabled=False)
        want = Wanted(self._position, known.leader_epoch, self._options.fetch_bytes)
        request = session.request(
            {partition: want}, {partition.topic: self._cluster.topic(partition.topic, deadline)}, self._limits
        )
        version = connection.version_of(FetchRequest, session.newest_version())
        return connection, connection.send(request, version, deadline)

    def _ask_ahead(self) -> tuple[Connection, int] | None:
        """Ask for what comes next before this batch is taken; if that fails the loop finds out soon enough."""
        try:
            return self._ask()
        except ClientError:
            return None

    def _data(self, answer: FetchResponse) -> PartitionData | None:
        if answer.error_code:
            raise Rejected(code_of(answer.error_code))
        for topic in answer.responses:
            for data in topic.partitions:
                code = code_of(data.error_code)
                if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._lost(data)
                    return None
                if code:
                    raise Rejected(
                        code, f"{self._range.partition} cannot be read at offset {self._position}: {code.name}."
                    )
                return data
        return None

    def _decoded(self, data: PartitionData) -> Iterator[Any]:
        aborted = data.aborted_transactions if self._options.read_committed else None
        assert data.records is not None
        try:
            yield from decode_each(
                data.records,
                columns=self._columns,
                start=self._position,
                end=self._range.end,
                aborted=aborted,
                of=self._range.partition,
            )
        except ProtocolError as error:
            raise Rejected(
                error.code, f"{self._range.partition} is broken at offset {self._position}: {error}"
            ) from None

    def _lost(self, data: PartitionData) -> None:
        """The log does not have the position any more (or not yet again): fail, or go on where it begins."""
        partition = self._range.partition
        first = max(Offset(data.log_start_offset), self._position)
        if first == self._position:
            first = self._range.end
        said = (
            f"Records of {partition} from offset {self._position} to {min(first, self._range.end) - 1} are gone: "
            f"the log begins at {data.log_start_offset} and ends at {data.high_watermark}."
        )
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{said} Set failOnDataLoss=false to go on without them.")
        self._position = min(first, self._range.end)

    def _check_progress(self, data: PartitionData | None) -> None:
        """Nothing came. Behind the last stable offset or the high watermark nothing will before others move it."""
        if data is None:
            return
        end = data.last_stable_offset if self._options.read_committed else data.high_watermark
        if 0 <= end <= self._position:
            message = f"{self._range.partition} ends at offset {end}, before {self._range.end}."
            self._again(Rejected(ErrorCode.OFFSET_NOT_AVAILABLE, message))

    def _again(self, error: ClientError) -> None:
        """Try again for a while; then it is the task's failure, with the place in the log named."""
        if self._patience is None:
            self._patience = Deadline(PATIENCE_S)
        retriable = error.retriable or (isinstance(error, Rejected) and error.code in RETRIABLE)
        if not retriable or not self._patience.pause():
            raise type(error)(*_named(error, self._range.partition, self._position)) from error
        self._cluster.forget()


def _named(error: ClientError, partition: TopicPartition, position: Offset) -> tuple[Any, ...]:
    message = f"Reading {partition} at offset {position} failed: {error}"
    return (error.code, message) if isinstance(error, Rejected) else (message,)
