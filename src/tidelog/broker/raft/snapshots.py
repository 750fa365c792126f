"""Snapshots of the metadata: files `<end>-<epoch>.checkpoint` beside the log, in Apache Kafka's format.

`MetadataLog` keeps count of them. Writing and reading may run in a thread: an image never changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.broker.raft.voters import voter_set_of, voters_record
from tidelog.env.files import Files, read_all
from tidelog.log.errors import CorruptLog
from tidelog.metadata.codec import decode_record, encode_record
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.snapshot import records_of
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.raft.ports import SnapshotId
from tidelog.raft.replicas import DYNAMIC_VOTERS_LEVEL, VoterSet
from tidelog.wire.batch import is_crc_valid, iter_headers
from tidelog.wire.compiler import decode
from tidelog.wire.control import ControlType, QuorumMessage, build_quorum_control, read_control_type
from tidelog.wire.messages import control_records as wire
from tidelog.wire.records import Record, build_batch, read_records
from tidelog.wire.schema import Message

SUFFIX: Final = ".checkpoint"
UNFINISHED_SUFFIX: Final = ".checkpoint.part"
RECORDS_PER_BATCH: Final = 1000
_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class Snapshot(NamedTuple):
    """What a snapshot says: the records that build the image, and the voters when they are no setting."""

    id: SnapshotId
    records: list[Message]
    voters: VoterSet | None


def file_name(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}{SUFFIX}"


def unfinished_name(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}{UNFINISHED_SUFFIX}"


def list_snapshots(files: Files, directory: str) -> list[SnapshotId]:
    """All complete snapshots, oldest first; what was left unfinished is removed. Raises OSError."""
    found = []
    for entry in files.list(directory):
        match = _NAME.fullmatch(entry.name)
        if match is not None:
            found.append(SnapshotId(Offset(int(match[1])), LeaderEpoch(int(match[2]))))
        elif entry.name.endswith(UNFINISHED_SUFFIX):
            files.remove(f"{directory}/{entry.name}")
    return sorted(found)


def write_snapshot(
    files: Files, directory: str, snapshot: SnapshotId, image: ClusterImage, voters: VoterSet | None, now_ms: int
) -> None:
    """Write a whole snapshot, durably. Raises OSError."""
    path = f"{directory}/{unfinished_name(snapshot)}"
    file = files.open(path, create=True)
    position = 0
    try:
        file.truncate(0)
        for batch in _batches(snapshot, image, voters, now_ms):
            file.write([batch], position)
            position += len(batch)
        file.sync()
    finally:
        file.close()
    put_in_place(files, directory, snapshot)


def put_in_place(files: Files, directory: str, snapshot: SnapshotId) -> None:
    """Give a finished, synced snapshot its name, durably. Raises OSError."""
    files.rename(f"{directory}/{unfinished_name(snapshot)}", f"{directory}/{file_name(snapshot)}")
    files.sync_directory(directory)


def _batches(snapshot: SnapshotId, image: ClusterImage, voters: VoterSet | None, now_ms: int) -> Iterator[bytes]:
    head: list[QuorumMessage] = [wire.SnapshotHeaderRecord(last_contained_log_timestamp=now_ms)]
    if voters is not None:
        head += [wire.KRaftVersionRecord(kraft_version=DYNAMIC_VOTERS_LEVEL), voters_record(voters)]
    offset = 0
    yield build_quorum_control(head, Offset(offset), snapshot.epoch, now_ms)
    offset += len(head)
    pending: list[Record] = []
    for message in records_of(image):
        pending.append(Record(offset + len(pending), now_ms, None, encode_record(message)))
        if len(pending) == RECORDS_PER_BATCH:
            yield build_batch(pending, base_offset=Offset(offset), leader_epoch=snapshot.epoch)
            offset += len(pending)
            pending = []
    if pending:
        yield build_batch(pending, base_offset=Offset(offset), leader_epoch=snapshot.epoch)
        offset += len(pending)
    yield build_quorum_control([wire.SnapshotFooterRecord()], Offset(offset), snapshot.epoch, now_ms)


def read_snapshot(files: Files, directory: str, snapshot: SnapshotId, *, unfinished: bool = False) -> Snapshot:
    """Read and check a whole snapshot. Raises OSError, CorruptLog."""
    path = f"{directory}/{unfinished_name(snapshot) if unfinished else file_name(snapshot)}"
    try:
        return _read(snapshot, path, memoryview(read_all(files, path)))
    except ProtocolError as error:
        raise CorruptLog(f"{path} is damaged: {error.message}") from error


def _read(snapshot: SnapshotId, path: str, data: memoryview) -> Snapshot:
    records: list[Message] = []
    voters: VoterSet | None = None
    end = 0
    closed = False
    for position, header in iter_headers(data):
        if not is_crc_valid(data, header, position):
            raise CorruptLog(f"{path} has a damaged batch at byte {position}")
        for record in read_records(data, position):
            if not header.is_control:
                records.append(decode_record(record.value or b""))
                continue
            kind = read_control_type(record)
            if kind is ControlType.KRAFT_VOTERS:
                voters = voter_set_of(decode(wire.VotersRecord, 0, record.value or b""))
            elif kind is ControlType.SNAPSHOT_FOOTER:
                closed = True
        end = position + header.size_bytes
    if not closed or end != len(data):
        raise CorruptLog(f"{path} is cut short")
    return Snapshot(snapshot, records, voters)
