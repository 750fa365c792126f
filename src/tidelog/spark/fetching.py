"""The executor's side of a read: one range of one partition as Arrow batches.

Called by both readers inside a Spark task, on the client's partition reader, which fetches one answer ahead. What a
range should hold and the log does not any more is data loss, and is said so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tidelog.client.admin import Admin, accepted
from tidelog.client.arrow_read import PartitionReader
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import EARLIEST
from tidelog.client.deadline import Deadline
from tidelog.client.errors import ClientError, Rejected, RequestExpired
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import Offset, TopicPartition
from tidelog.spark.connecting import Protection, cluster_at
from tidelog.spark.errors import DataLoss, ReadFailed
from tidelog.spark.options import ReadOptions
from tidelog.spark.planning import Range
from tidelog.wire.columns.decode import decode_each

# How long a partition may have no leader, or its broker be away, before a task fails and Spark tries it elsewhere.
PATIENCE_S: Final = 60.0
# Each batch costs Java and Python about as much as a thousand rows, and Java compiles what it does often: as a rule a
# fetch is one. What was compressed may be many times as large.
ROWS_MAX: Final = 100_000
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024


def read_range(options: ReadOptions, wanted: Range, columns: Sequence[str]) -> Iterator[Any]:
    """The records of a range as Arrow batches with the client's column names."""
    with _connected(options) as cluster:
        reader = PartitionReader(
            cluster, wanted.partition, read_committed=options.read_committed, fetch_bytes=options.fetch_bytes
        )
        try:
            yield from _batches(cluster, reader, options, wanted, columns)
        finally:
            reader.close()


@contextmanager
def _connected(options: ReadOptions) -> Iterator[Cluster]:
    """A cluster with its connections: those of the last task, if it had the same and ended well.

    Spark runs one task after the other in a process; a stream has thousands of small ones, as quick as they connect.
    """
    wanted = (options.bootstrap_servers, options.client_id, options.request_timeout_s, options.protection)
    cluster = _kept.pop(wanted, None)
    if cluster is None:
        _forget()
        cluster = cluster_at(wanted[0], wanted[3], client_id=wanted[1], request_timeout_s=wanted[2])
    try:
        yield cluster
    except BaseException:
        cluster.close()
        raise
    _kept[wanted] = cluster


def _forget() -> None:
    while _kept:
        _kept.popitem()[1].close()


_kept: dict[tuple[str, str, float, Protection], Cluster] = {}


def _batches(
    cluster: Cluster, reader: PartitionReader, options: ReadOptions, wanted: Range, columns: Sequence[str]
) -> Iterator[Any]:
    position, end, partition = wanted.start, wanted.end, wanted.partition
    deadline = Deadline(PATIENCE_S)
    while position < end:
        try:
            fetched = reader.fetch(position, end, deadline)
            if fetched is None:
                if not deadline.remaining_s():
                    raise RequestExpired(f"there should be records up to offset {end - 1}, but none came")
                continue
            decoded = decode_each(
                fetched.data, columns=columns, start=position, end=end, aborted=fetched.aborted, of=partition
            )
            for batch, next_offset in decoded:
                position = next_offset
                yield from pieces(batch)
        except Rejected as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise ReadFailed(f"Reading {partition} at offset {position} failed: {error}") from error
            position = _after_loss(cluster, partition, position, end, options.fail_on_data_loss)
        except (ClientError, ProtocolError) as error:
            raise ReadFailed(f"Reading {partition} at offset {position} failed: {error}") from error
        deadline = Deadline(PATIENCE_S)


def pieces(batch: Any) -> Iterator[Any]:
    """The rows of a batch, no more at once than Spark should hold; nothing if there are none."""
    rows = batch.num_rows
    if not rows:
        return
    rows_max = min(ROWS_MAX, max(1, rows * BATCH_BYTES_MAX // max(1, batch.nbytes)))
    for first in range(0, rows, rows_max):
        yield batch if rows <= rows_max else batch.slice(first, rows_max)


def _after_loss(cluster: Cluster, partition: TopicPartition, position: Offset, end: Offset, fail: bool) -> Offset:
    """Where to go on when the log does not have a position any more."""
    first = accepted(Admin(cluster).list_offsets({partition: EARLIEST})[partition]).offset
    # A log that ends before the position was cut or made anew: nothing of the range will come.
    resumed = min(first, end) if first > position else end
    if fail:
        message = f"Offsets {position} to {resumed - 1} of {partition} are gone: the log begins at {first}."
        raise DataLoss(f"{message} Set failOnDataLoss=false to go on without them.")
    return resumed
