from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from uuid import UUID

import pytest

from tidelog.env.files import RealFiles
from tidelog.env.simulated_files import SimulatedCrash, SimulatedFiles
from tidelog.log.checkpoints import (
    RECOVERY_POINT_FILE,
    DirectoryOwner,
    decode_uuid,
    encode_uuid,
    read_offsets,
    read_owner,
    read_topic_id,
    write_offsets,
    write_owner,
    write_topic_id,
)
from tidelog.log.errors import CorruptLog
from tidelog.model.ids import NodeId, Offset, PartitionIndex, TopicName, TopicPartition

TIDES = TopicPartition(TopicName("tides"), PartitionIndex(0))
EBBS = TopicPartition(TopicName("ebbs-and-flows.x"), PartitionIndex(12))


@pytest.mark.req("B9")
def test_offsets_are_kept_in_the_text_format_of_apache_kafka(tmp_path: Path) -> None:
    write_offsets(RealFiles(), str(tmp_path), RECOVERY_POINT_FILE, {TIDES: Offset(42), EBBS: Offset(7)})

    text = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert text == "0\n2\ntides 0 42\nebbs-and-flows.x 12 7\n"
    assert read_offsets(RealFiles(), str(tmp_path), RECOVERY_POINT_FILE) == {TIDES: 42, EBBS: 7}
    assert list(tmp_path.iterdir()) == [tmp_path / RECOVERY_POINT_FILE]


def test_a_missing_checkpoint_says_nothing_and_a_broken_one_says_so(tmp_path: Path) -> None:
    assert read_offsets(RealFiles(), str(tmp_path), RECOVERY_POINT_FILE) == {}
    (tmp_path / RECOVERY_POINT_FILE).write_text("")
    assert read_offsets(RealFiles(), str(tmp_path), RECOVERY_POINT_FILE) == {}, "as Apache Kafka leaves it at first"
    for content in ("0\n1\n", "9\n0\n", "0\n1\ntides 0\n", "0\n1\ntides zero 1\n", "\0\0"):
        (tmp_path / RECOVERY_POINT_FILE).write_text(content)
        with pytest.raises(CorruptLog):
            read_offsets(RealFiles(), str(tmp_path), RECOVERY_POINT_FILE)


def test_a_crash_while_a_checkpoint_is_written_leaves_the_old_or_the_new_one() -> None:
    seen = set()
    for seed in range(60):
        files = SimulatedFiles(seed)
        files.make_directory("/data")
        write_offsets(files, "/data", RECOVERY_POINT_FILE, {TIDES: Offset(1)})
        files.crash_at = files.operations + 1 + seed % 6
        with contextlib.suppress(SimulatedCrash):
            write_offsets(files, "/data", RECOVERY_POINT_FILE, {TIDES: Offset(2), EBBS: Offset(2)})
        files.crash()
        seen.add(read_offsets(files, "/data", RECOVERY_POINT_FILE)[TIDES])
    assert seen == {1, 2}


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one() -> None:
    files = SimulatedFiles()
    files.make_directory("/data")
    write_offsets(files, "/data", RECOVERY_POINT_FILE, {TIDES: Offset(1)})
    files.failures[files.operations + 3] = errno.EIO

    with pytest.raises(OSError):
        write_offsets(files, "/data", RECOVERY_POINT_FILE, {TIDES: Offset(2)})
    assert read_offsets(files, "/data", RECOVERY_POINT_FILE) == {TIDES: 1}


def test_an_id_is_written_as_apache_kafka_writes_it() -> None:
    assert encode_uuid(UUID(int=0)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert decode_uuid("4L6g3nShT-eMCtK--X86sw") == UUID("e0bea0de-74a1-4fe7-8c0a-d2bef97f3ab3")
    with pytest.raises(ValueError):
        decode_uuid("x")


def test_a_directory_says_whose_it_is(tmp_path: Path) -> None:
    assert read_owner(RealFiles(), str(tmp_path)) is None
    owner = DirectoryOwner("4L6g3nShT-eMCtK--X86sw", NodeId(3), UUID(int=9))
    write_owner(RealFiles(), str(tmp_path), owner)

    assert read_owner(RealFiles(), str(tmp_path)) == owner
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    assert set(lines[1:]) == {
        "version=1",
        "cluster.id=4L6g3nShT-eMCtK--X86sw",
        "node.id=3",
        "directory.id=AAAAAAAAAAAAAAAAAAAACQ",
    }
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\n")
    with pytest.raises(CorruptLog):
        read_owner(RealFiles(), str(tmp_path))


def test_a_partition_says_to_which_topic_it_belongs(tmp_path: Path) -> None:
    assert read_topic_id(RealFiles(), str(tmp_path)) is None
    write_topic_id(RealFiles(), str(tmp_path), UUID(int=9))
    assert read_topic_id(RealFiles(), str(tmp_path)) == UUID(int=9)

    (tmp_path / "partition.metadata").write_bytes(b"\0" * 20)
    assert read_topic_id(RealFiles(), str(tmp_path)) is None
