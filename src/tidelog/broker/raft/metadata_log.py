"""The log of the metadata quorum, `__cluster_metadata-0`, with its snapshots, as the machine of `raft` sees it.

Kept by our own `log` package, in Apache Kafka's format. Appending and cutting happen at once, in the loop; `flush`,
`write_snapshot` and `install` may run in threads. It never decides what to keep.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final

from tidelog.broker.raft import snapshots
from tidelog.broker.raft.snapshots import Snapshot
from tidelog.broker.raft.voters import control_message, voter_sets_in
from tidelog.env.clock import Clock
from tidelog.env.files import Files
from tidelog.log.config import LogConfig
from tidelog.log.errors import CorruptLog
from tidelog.log.open_files import OpenFiles
from tidelog.log.partition import PartitionLog
from tidelog.log.recovery import create_log, open_log
from tidelog.metadata.codec import decode_record, encode_record
from tidelog.metadata.image import ClusterImage
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, TopicPartition
from tidelog.model.names import METADATA_TOPIC
from tidelog.raft.effects import ControlRecord
from tidelog.raft.ports import EpochEnd, SnapshotId
from tidelog.raft.replicas import VoterSet
from tidelog.wire.batch import is_crc_valid, iter_headers, read_header
from tidelog.wire.control import build_quorum_control
from tidelog.wire.records import Record, build_batch, read_records
from tidelog.wire.schema import Message

METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, PartitionIndex(0))
READ_BYTES: Final = 1024 * 1024
# The newest snapshot, and the one before it: from there on the log is kept, so that a replica that is a little late
# need not fetch a whole snapshot.
SNAPSHOTS_KEPT: Final = 2


class MetadataLog:
    """Batches, epochs and snapshots of this node's copy of the metadata. It is the machine's `LogView`."""

    def __init__(self, log: PartitionLog, clock: Clock, found: list[SnapshotId]) -> None:
        self._log = log
        self._clock = clock
        self._snapshots = found

    # --- what the machine sees ----------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> Offset:
        return self._log.start_offset

    @property
    def start_epoch(self) -> LeaderEpoch:
        start = self._log.start_offset
        return next((one.epoch for one in self._snapshots if one.end_offset == start), LeaderEpoch(0))

    @property
    def end_offset(self) -> Offset:
        return self._log.end_offset

    @property
    def last_epoch(self) -> LeaderEpoch:
        return self.start_epoch if self._log.end_offset == self._log.start_offset else self._log.epochs.latest

    @property
    def snapshot(self) -> SnapshotId | None:
        return self._snapshots[-1] if self._snapshots else None

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        if offset < self._log.start_offset:
            return self.start_epoch
        return self._log.epochs.epoch_at(offset)

    def epoch_end(self, epoch: LeaderEpoch) -> EpochEnd:
        entries = self._log.epochs.entries
        following = bisect_right(entries, epoch, key=itemgetter(0))
        end = entries[following][1] if following < len(entries) else self._log.end_offset
        if following == 0 or end <= self._log.start_offset:
            return EpochEnd(self.start_epoch, self._log.start_offset)
        return EpochEnd(entries[following - 1][0], end)

    # --- appending and cutting ----------------------------------------------------------------------------------------

    def append(self, records: Sequence[Message], epoch: LeaderEpoch) -> Offset:
        """Write one batch of the controller's records; the offset after it. Raises LogFailed."""
        now_ms = self._clock.now_ms()
        return self._write(
            build_batch([Record(place, now_ms, None, encode_record(one)) for place, one in enumerate(records)]), epoch
        )

    def append_control(self, records: Sequence[ControlRecord], epoch: LeaderEpoch) -> None:
        """Write one batch of the quorum's own records. Raises LogFailed."""
        messages = [control_message(record) for record in records]
        self._write(build_quorum_control(messages, self.end_offset, epoch, self._clock.now_ms()), epoch)

    def _write(self, batch: bytes, epoch: LeaderEpoch) -> Offset:
        view = memoryview(bytearray(batch))
        self._log.stage(read_header(view), view, epoch)
        self._log.write_staged()
        return self._log.end_offset

    def append_fetched(self, batches: memoryview) -> None:
        """Write what the leader sent, as it is; `check_fetched` has seen it. Raises LogFailed."""
        self._log.append_replicated(batches)

    def truncate(self, offset: Offset) -> None:
        """Raises LogFailed."""
        self._log.truncate_to(offset)

    def flush(self) -> None:
        """Return when all that was appended is on the disk. May run in a thread. Raises LogFailed."""
        self._log.flush()

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, offset: Offset, max_bytes: int) -> bytes:
        """Whole batches from `offset` on, at least one of them if there is one."""
        piece = self._log.read(offset, max_bytes, self._log.end_offset, at_least_one_batch=True)
        return b"" if piece is None else piece.read()

    def records(self, start: Offset, end: Offset) -> Iterator[tuple[list[Message], Offset, LeaderEpoch]]:
        """The records in [start, end), batch by batch, each with the offset of its last record and its epoch.

        A batch of the quorum's own records has none for the controller.
        """
        offset = start
        while offset < end:
            data = memoryview(self.read(offset, READ_BYTES))
            for position, header in iter_headers(data):
                if header.base_offset >= end:
                    return
                values = [] if header.is_control else read_records(data, position)
                decoded = [decode_record(record.value or b"") for record in values]
                yield decoded, Offset(header.last_offset), LeaderEpoch(header.leader_epoch)
                offset = Offset(header.last_offset + 1)

    def voter_sets(self) -> Iterator[tuple[Offset, VoterSet]]:
        """All voters that the log names, oldest first."""
        offset = self.start_offset
        while offset < self.end_offset:
            data = memoryview(self.read(offset, READ_BYTES))
            yield from voter_sets_in(data)
            for _, header in iter_headers(data):
                offset = Offset(header.last_offset + 1)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    @property
    def files(self) -> Files:
        return self._log.open_files.files

    @property
    def directory(self) -> str:
        return self._log.directory

    def load_snapshot(self) -> Snapshot | None:
        """The newest one; an unreadable one is as if the disk were lost. Raises OSError, CorruptLog."""
        newest = self.snapshot
        return None if newest is None else snapshots.read_snapshot(self.files, self.directory, newest)

    def write_snapshot(self, snapshot: SnapshotId, image: ClusterImage, voters: VoterSet | None) -> None:
        """Write a snapshot beside the log; `snapshot_written` tells the log of it. May run in a thread."""
        snapshots.write_snapshot(self.files, self.directory, snapshot, image, voters, self._clock.now_ms())

    def snapshot_written(self, snapshot: SnapshotId) -> None:
        """A snapshot is there: what lies before the one before it may go. Raises OSError, LogFailed."""
        if self._snapshots and snapshot <= self._snapshots[-1]:
            return
        self._snapshots.append(snapshot)
        self._log.roll()
        obsolete, self._snapshots = self._snapshots[:-SNAPSHOTS_KEPT], self._snapshots[-SNAPSHOTS_KEPT:]
        oldest = self._snapshots[0]
        if len(self._snapshots) == SNAPSHOTS_KEPT and oldest.end_offset > self.start_offset:
            self._log.advance_start_offset(oldest.end_offset)
            now_ms = self._clock.now_ms()
            self._log.delete_old_segments(now_ms, oldest.end_offset)
            self._log.reap(now_ms)
        for gone in obsolete:
            self.files.remove(f"{self.directory}/{snapshots.file_name(gone)}")

    def read_snapshot_piece(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """The size of a snapshot and a piece of it; None when it is not, or no longer, here. Raises OSError."""
        if snapshot not in self._snapshots:
            return None
        file = self.files.open(f"{self.directory}/{snapshots.file_name(snapshot)}")
        try:
            return file.size(), file.read(max_bytes, position)
        finally:
            file.close()

    def store_piece(self, snapshot: SnapshotId, position: int, piece: bytes | memoryview) -> None:
        """Write a fetched piece into the file of a snapshot that is not complete yet. Raises OSError."""
        file = self.files.open(f"{self.directory}/{snapshots.unfinished_name(snapshot)}", create=True)
        try:
            file.truncate(position)
            file.write([piece], position)
        finally:
            file.close()

    def install(self, snapshot: SnapshotId) -> Snapshot:
        """Check a fetched snapshot and give it its name, durably. May run in a thread. Raises OSError, CorruptLog."""
        read = snapshots.read_snapshot(self.files, self.directory, snapshot, unfinished=True)
        file = self.files.open(f"{self.directory}/{snapshots.unfinished_name(snapshot)}")
        try:
            file.sync()
        finally:
            file.close()
        snapshots.put_in_place(self.files, self.directory, snapshot)
        return read

    def start_again_at(self, snapshot: SnapshotId) -> None:
        """An installed snapshot takes the place of the whole log. Raises OSError, LogFailed."""
        obsolete, self._snapshots = self._snapshots, [snapshot]
        self._log.truncate_fully_and_start_at(snapshot.end_offset)
        self._log.reap(self._clock.now_ms())
        for gone in obsolete:
            if gone != snapshot:
                self.files.remove(f"{self.directory}/{snapshots.file_name(gone)}")

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    def close(self) -> None:
        """Raises LogFailed."""
        self._log.close()


def check_fetched(batches: memoryview) -> tuple[memoryview, Offset, Offset, LeaderEpoch]:
    """The whole batches among what a fetch brought, their first offset, the offset after them, the last epoch.

    Raises ProtocolError for what its writer did not write.
    """
    first = end = Offset(-1)
    epoch = LeaderEpoch(0)
    length = 0
    for position, header in iter_headers(batches):
        if not is_crc_valid(batches, header, position) or header.leader_epoch < epoch:
            raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"The batch at offset {header.base_offset} is damaged.")
        if first < 0:
            first = Offset(header.base_offset)
        elif header.base_offset != end:
            raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"A batch at {header.base_offset} follows offset {end}.")
        end = header.next_offset
        epoch = LeaderEpoch(header.leader_epoch)
        length = position + header.size_bytes
    return batches[:length], first, end, epoch


def open_metadata_log(directory: str, open_files: OpenFiles, clock: Clock, segment_bytes: int) -> MetadataLog:
    """The metadata log in a log directory, every batch of it checked; a new one where there is none.

    Raises OSError, LogFailed, CorruptLog.
    """
    # Metadata is never deleted by age: the newest value of everything must be there.
    config = LogConfig(segment_bytes=segment_bytes, retention_ms=-1, deletes_old_segments=False, file_delete_delay_ms=0)
    folder = f"{directory}/{METADATA_PARTITION}"
    files = open_files.files
    if not files.exists(folder):
        return MetadataLog(create_log(METADATA_PARTITION, folder, open_files, clock, config), clock, [])
    found = snapshots.list_snapshots(files, folder)
    # Where two snapshots are kept, the log begins with the older one.
    start = found[0].end_offset if len(found) >= SNAPSHOTS_KEPT else Offset(0)
    log = open_log(METADATA_PARTITION, folder, open_files, clock, config, clean=False, start_offset=start)
    if found and not _holds(log, found[-1]):
        # A snapshot of the leader was put in place, and the crash came before the log was replaced by it.
        log.truncate_fully_and_start_at(found[-1].end_offset)
        for gone in found[:-1]:
            files.remove(f"{folder}/{snapshots.file_name(gone)}")
        found = found[-1:]
    if log.start_offset > start and not (found and found[-1].end_offset >= log.start_offset):
        raise CorruptLog(f"{folder} starts at offset {log.start_offset}, but no snapshot holds what was before it")
    return MetadataLog(log, clock, found)


def _holds(log: PartitionLog, snapshot: SnapshotId) -> bool:
    """Whether what the snapshot sums up is the beginning of this log, or lies before it."""
    if snapshot.end_offset <= log.start_offset:
        return snapshot.end_offset == log.start_offset
    return (
        snapshot.end_offset <= log.end_offset and log.epochs.epoch_at(Offset(snapshot.end_offset - 1)) == snapshot.epoch
    )
