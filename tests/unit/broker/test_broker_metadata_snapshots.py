"""Snapshots of the metadata: what is written is read again, and what is damaged is not believed."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.broker.raft.snapshots import (
    file_name,
    list_snapshots,
    read_snapshot,
    unfinished_name,
    write_snapshot,
)
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.errors import CorruptLog
from tidelog.metadata.image import EMPTY, ClusterImage
from tidelog.metadata.replay import replay
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.ports import SnapshotId
from tidelog.raft.replicas import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.wire.messages.metadata_records import FeatureLevelRecord, PartitionRecord, TopicRecord
from tidelog.wire.schema import Message

SNAPSHOT = SnapshotId(Offset(2002), LeaderEpoch(4))
VOTERS = VoterSet([Voter(ReplicaKey(NodeId(1), UUID(int=77)), (Endpoint("CONTROLLER", "host", 9093),))])


def image() -> ClusterImage:
    topic_id = UUID(int=99)
    records: list[Message] = [FeatureLevelRecord(name="metadata.version", feature_level=29)]
    records.append(TopicRecord(name="wide", topic_id=topic_id))
    records += [
        PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1) for index in range(2000)
    ]
    return replay(EMPTY, records, Offset(2001), LeaderEpoch(4)).after


@pytest.fixture
def files() -> SimulatedFiles:
    made = SimulatedFiles()
    made.make_directory("/log")
    return made


@pytest.mark.parametrize("voters", [None, VOTERS])
def test_a_snapshot_survives_a_loss_of_power_and_builds_the_same_image(
    files: SimulatedFiles, voters: VoterSet | None
) -> None:
    whole = image()
    write_snapshot(files, "/log", SNAPSHOT, whole, voters, 1_700_000_000_000)
    files.crash()

    (found,) = list_snapshots(files, "/log")
    read = read_snapshot(files, "/log", found)

    assert found == read.id == SNAPSHOT and read.voters == voters
    assert replay(EMPTY, read.records, Offset(2001), LeaderEpoch(4)).after == whole


def test_a_damaged_snapshot_is_refused_wherever_the_damage_is(files: SimulatedFiles) -> None:
    write_snapshot(files, "/log", SNAPSHOT, image(), VOTERS, 1_700_000_000_000)
    path = f"/log/{file_name(SNAPSHOT)}"
    file = files.open(path)
    size = file.size()
    for position in range(70, size, size // 20):
        before = file.read(1, position)
        file.write([bytes([before[0] ^ 0xFF])], position)
        with pytest.raises(CorruptLog):
            read_snapshot(files, "/log", SNAPSHOT)
        file.write([before], position)
    assert read_snapshot(files, "/log", SNAPSHOT).voters == VOTERS


def test_a_snapshot_that_was_cut_short_is_refused(files: SimulatedFiles) -> None:
    write_snapshot(files, "/log", SNAPSHOT, image(), None, 1_700_000_000_000)
    file = files.open(f"/log/{file_name(SNAPSHOT)}")
    for size in (0, 100, file.size() // 2, file.size() - 1):
        file.truncate(size)
        with pytest.raises(CorruptLog):
            read_snapshot(files, "/log", SNAPSHOT)


def test_what_was_left_unfinished_is_removed(files: SimulatedFiles) -> None:
    files.open(f"/log/{unfinished_name(SNAPSHOT)}", create=True)

    assert list_snapshots(files, "/log") == []
    assert not files.exists(f"/log/{unfinished_name(SNAPSHOT)}")
