"""`option("via", "segments")`: a range read from the files of the partition's leader, without the network.

The driver looks up where the files are (`located`): in the folders that option `logDirs` names, or in those that the
brokers tell. A task reads them (`read_segments`) on the machine that has the disk. What may be read is still what the
broker says: ranges end at the high watermark, or the last stable offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidelog.client.admin import Admin
from tidelog.client.cluster import Cluster
from tidelog.env.files import ReadOnlyFiles
from tidelog.log.checkpoints import read_owner, read_topic_id
from tidelog.log.errors import CorruptLog
from tidelog.log.held_segments import HeldSegments, UnsettledFolder, hold
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import NodeId, Offset, TopicPartition
from tidelog.spark.errors import DataLoss, InvalidOption, ReadFailed
from tidelog.spark.fetching import pieces, read_range
from tidelog.spark.options import ReadOptions
from tidelog.spark.planning import Range
from tidelog.wire.columns.decode import decode_each
from tidelog.wire.messages.fetch import AbortedTransaction


def located(options: ReadOptions, cluster: Cluster, found: Iterable[Range]) -> list[Range]:
    """The same ranges, each with the folder of its partition. InvalidOption for one whose files are not here."""
    asked: dict[NodeId, dict[TopicPartition, str]] = {}
    folders: dict[TopicPartition, str] = {}
    wanted = list(found)
    for partition in {one.partition for one in wanted}:
        leader = cluster.retry(lambda deadline, which=partition: cluster.leader(which, deadline)).id  # type: ignore[misc]
        if options.log_dirs:
            folders[partition] = _named_folder(options.log_dirs, cluster, partition, leader)
            continue
        if leader not in asked:
            asked[leader] = _told_folders(cluster, leader)
        folders[partition] = asked[leader].get(partition, "")
        _check_readable(folders[partition], partition, leader)
        _check_topic(folders[partition], cluster, partition)
    return [replace(one, folder=folders[one.partition]) for one in wanted]


def read_any_way(options: ReadOptions, wanted: Range, columns: Sequence[str]) -> Iterator[Any]:
    """The records of a range, over the network or from the files, as the options say."""
    return (read_segments if options.via_segments else read_range)(options, wanted, columns)


def read_segments(options: ReadOptions, wanted: Range, columns: Sequence[str]) -> Iterator[Any]:
    """The records of a range as Arrow batches with the client's column names."""
    try:
        held = hold(wanted.folder, wanted.start)
    except FileNotFoundError:
        message = f"Reading {wanted.partition} at offset {wanted.start} failed: {wanted.folder} is gone"
        raise ReadFailed(f"{message}. Was the topic deleted, or does this task run on another machine?") from None
    except (OSError, UnsettledFolder, CorruptLog) as error:
        raise ReadFailed(f"Reading {wanted.partition} at offset {wanted.start} failed: {error}") from error
    try:
        yield from _batches(options, wanted, held, columns)
    finally:
        held.close()


def _batches(options: ReadOptions, wanted: Range, held: HeldSegments, columns: Sequence[str]) -> Iterator[Any]:
    partition, position = wanted.partition, _after_loss(options, wanted, held)
    try:
        for chunk in held.chunks(position, wanted.end, options.fetch_bytes):
            aborted = [AbortedTransaction(one.producer_id, one.first_offset) for one in chunk.aborted]
            decoded = decode_each(
                chunk.data,
                columns=columns,
                start=position,
                end=wanted.end,
                aborted=aborted if options.read_committed else None,
                of=partition,
            )
            for batch, next_offset in decoded:
                position = next_offset
                yield from pieces(batch)
    except (OSError, ProtocolError, CorruptLog) as error:
        raise ReadFailed(f"Reading {partition} at offset {position} failed: {error}") from error
    # The last segment is never compacted, so it ends where the log does.
    reached = max(position, held.segments[-1].base_offset) if held.segments else position
    if reached < wanted.end:
        message = f"Reading {partition} at offset {reached} failed: its files in {wanted.folder} end there"
        raise ReadFailed(f"{message}, and the broker has records up to offset {wanted.end - 1}.")


def _after_loss(options: ReadOptions, wanted: Range, held: HeldSegments) -> Offset:
    """Where to begin: later than wanted when retention was quicker than the task."""
    first = held.first_offset
    if first is None or first <= wanted.start:
        return wanted.start
    resumed = min(first, wanted.end)
    if options.fail_on_data_loss:
        message = f"Offsets {wanted.start} to {resumed - 1} of {wanted.partition} are gone: its files begin at {first}."
        raise DataLoss(f"{message} Set failOnDataLoss=false to go on without them.")
    return resumed


def _told_folders(cluster: Cluster, leader: NodeId) -> dict[TopicPartition, str]:
    """Where a broker says that it keeps its partitions."""
    return {
        replica.partition: f"{directory.path}/{replica.partition}"
        for directory in Admin(cluster).describe_log_dirs(leader)
        if not directory.error
        for replica in directory.replicas
    }


def _check_readable(folder: str, partition: TopicPartition, leader: NodeId) -> None:
    said = f"via=segments cannot read {partition}: broker {leader} keeps it"
    if not folder:
        raise InvalidOption(f"via=segments cannot read {partition}: broker {leader}, which leads it, does not keep it.")
    if not Path(folder).is_absolute() or not Path(folder).is_dir():
        raise InvalidOption(f"{said} in {folder}, which is not on this machine. Name its directory with logDirs.")


def _named_folder(directories: Sequence[str], cluster: Cluster, partition: TopicPartition, leader: NodeId) -> str:
    """The folder of the leader among directories of one or more brokers."""
    files = ReadOnlyFiles()
    for directory in directories:
        folder = f"{directory.rstrip('/')}/{partition}"
        if not Path(folder).is_dir():
            continue
        try:
            owner = read_owner(files, directory)
        except CorruptLog as error:
            raise InvalidOption(f"Option logDirs names {directory}, which cannot be read: {error}.") from None
        if owner is not None and owner.node_id == leader:
            _check_topic(folder, cluster, partition)
            return folder
    message = f"via=segments cannot read {partition}: none of {', '.join(directories)} (logDirs)"
    raise InvalidOption(f"{message} is a directory of broker {leader}, which leads it, with this partition.")


def _check_topic(folder: str, cluster: Cluster, partition: TopicPartition) -> None:
    """A folder of the same name may be that of a topic that was deleted, or of another cluster."""
    topic = cluster.view.topics.get(partition.topic)
    noted = read_topic_id(ReadOnlyFiles(), folder)
    if topic is not None and noted is not None and noted != topic.id:
        raise InvalidOption(f"{folder} belongs to another topic of the name '{partition.topic}' than the cluster's.")
