"""Every kind of damage is planted in the files of a log, one at a time, and must be found; a sound log has none."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.compacting import compact, end_transaction, keyed
from harness.logs import NOON_MS, append, batch_of, new_log, stage
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFiles
from tidelog.log.audit import Severity, audit_partition
from tidelog.log.audit_directory import audit_directory
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.batch import iter_headers, read_header
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, build_batch, seal_batch

CONFIG = LogConfig(segment_bytes=2500, index_interval_bytes=300)
PARTITION = TopicPartition(TopicName("tides"), PartitionIndex(0))


def fill(log: PartitionLog) -> None:
    """Three epochs, idempotent producers, an aborted and a committed transaction, compressed batches, many segments."""
    for number in range(60):
        values = [b"%d" % number + b"." * 40, b"%d" % number]
        producer = (7, 0, 2 * number) if number % 3 else None
        if number % 3:
            producer = (7, 0, 2 * (number - number // 3 - 1))
        compression = Compression.GZIP if number % 5 == 0 else Compression.NONE
        batch = batch_of(values, timestamp=NOON_MS + 10 * number, step_ms=3, producer=producer, compression=compression)
        stage(log, batch, epoch=number // 20)
        log.write_staged()
        if number in (10, 41):
            batch = batch_of([b"in a transaction"], timestamp=NOON_MS, producer=(8, 0, 0), is_transactional=True)
            stage(log, batch, epoch=number // 20)
            log.write_staged()
            end_marker(log, commit=number == 41, epoch=number // 20)


def end_marker(log: PartitionLog, *, commit: bool, epoch: int) -> None:
    from tidelog.model.ids import ProducerEpoch, ProducerId
    from tidelog.wire.control import EndTransaction, build_end_transaction

    marker = build_end_transaction(EndTransaction(commit, 1), ProducerId(8), ProducerEpoch(0), NOON_MS)
    stage(log, memoryview(bytearray(marker)), epoch=epoch)
    log.write_staged()
    log.producers.replicated_up_to(log.end_offset)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory as a clean stop leaves it."""
    path = tmp_path_factory.mktemp("sound") / "data"
    directories = LogDirectories([str(path)], RealFiles(), SimulatedClock(NOON_MS))
    directories.load(lambda _: CONFIG)
    directories.claim("a-cluster", NodeId(1))
    fill(directories.create(PARTITION, CONFIG))
    directories.high_watermarks[PARTITION] = directories.partitions()[PARTITION].end_offset
    directories.close()
    assert not directories.offline()
    return path


class Planted:
    """A copy of the directory to do damage in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / str(PARTITION)
        self.logs = sorted(self.folder.glob("*.log"))
        # In the middle of the log, with an index that has several entries.
        self.log = self.logs[1]

    def headers(self, path: Path) -> list[tuple[int, int]]:
        """(position, size) of every batch."""
        return [(position, header.size_bytes) for position, header in iter_headers(path.read_bytes())]

    def change(self, path: Path, position: int, content: bytes) -> None:
        data = bytearray(path.read_bytes())
        data[position : position + len(content)] = content
        path.write_bytes(data)

    def flip(self, path: Path, position: int) -> None:
        self.change(path, position, bytes([path.read_bytes()[position] ^ 1]))

    def replace_batch(self, number: int, make: Callable[[bytes], bytes]) -> None:
        """Put another batch in the place of one, with a checksum that is right."""
        data = self.log.read_bytes()
        position, size = self.headers(self.log)[number]
        self.log.write_bytes(data[:position] + make(data[position : position + size]) + data[position + size :])


def flipped_bit_in_a_record(planted: Planted) -> None:
    position, size = planted.headers(planted.log)[2]
    planted.flip(planted.log, position + size - 3)


def flipped_bit_in_a_header(planted: Planted) -> None:
    planted.flip(planted.log, planted.headers(planted.log)[2][0] + 30)


def changed_base_offset(planted: Planted) -> None:
    planted.flip(planted.log, planted.headers(planted.log)[2][0] + 6)


def changed_base_offset_of_the_last_batch(planted: Planted) -> None:
    position = planted.headers(planted.logs[-1])[-1][0]
    planted.flip(planted.logs[-1], position + 6)


def changed_leader_epoch(planted: Planted) -> None:
    planted.change(planted.log, planted.headers(planted.log)[2][0] + 12, struct.pack(">i", 77))


def torn_end(planted: Planted) -> None:
    planted.logs[-1].write_bytes(planted.logs[-1].read_bytes()[:-7])


def zeros_in_the_middle(planted: Planted) -> None:
    position, size = planted.headers(planted.log)[3]
    planted.change(planted.log, position, bytes(size))


def zeros_at_the_end(planted: Planted) -> None:
    planted.logs[-1].write_bytes(planted.logs[-1].read_bytes() + bytes(512))


def wrong_length(planted: Planted) -> None:
    planted.change(planted.log, planted.headers(planted.log)[2][0] + 8, struct.pack(">i", 17))


def wrong_magic(planted: Planted) -> None:
    planted.change(planted.log, planted.headers(planted.log)[2][0] + 16, b"\x09")


def records_that_are_none(planted: Planted) -> None:
    planted.replace_batch(2, lambda batch: seal_batch(read_header(batch), b"\xff" * 30))


def fewer_records_than_said(planted: Planted) -> None:
    def make(batch: bytes) -> bytes:
        one = build_batch([Record(0, NOON_MS, None, b"alone")])
        return seal_batch(read_header(batch), one[61:])

    planted.replace_batch(2, make)


def compressed_bytes_that_are_not(planted: Planted) -> None:
    def make(batch: bytes) -> bytes:
        import msgspec

        header = msgspec.structs.replace(read_header(batch), attributes=Compression.GZIP.value)
        return seal_batch(header, b"not gzip at all")

    planted.replace_batch(2, make)


def wrong_largest_timestamp(planted: Planted) -> None:
    def make(batch: bytes) -> bytes:
        import msgspec

        header = read_header(batch)
        changed = msgspec.structs.replace(header, max_timestamp=header.max_timestamp - 1)
        return seal_batch(changed, batch[61:])

    planted.replace_batch(1, make)


def missing_segment(planted: Planted) -> None:
    for path in planted.folder.glob(f"{planted.log.stem}.*"):
        path.unlink()


def missing_batch(planted: Planted) -> None:
    planted.replace_batch(2, lambda batch: b"")


def batch_twice(planted: Planted) -> None:
    planted.replace_batch(2, lambda batch: batch + batch)


def segment_under_another_name(planted: Planted) -> None:
    other = planted.log.with_name(f"{int(planted.log.stem) + 4:020d}.log")
    planted.log.rename(other)


def offset_index_leads_nowhere(planted: Planted) -> None:
    planted.change(planted.log.with_suffix(".index"), 8 + 4, struct.pack(">i", 3))


def offset_index_is_torn(planted: Planted) -> None:
    path = planted.log.with_suffix(".index")
    path.write_bytes(path.read_bytes()[:-3])


def offset_index_is_gone(planted: Planted) -> None:
    planted.log.with_suffix(".index").unlink()


def time_index_lies(planted: Planted) -> None:
    planted.change(planted.log.with_suffix(".timeindex"), 4, b"\x00\x00\x00\x01")


def time_index_lacks_its_end(planted: Planted) -> None:
    path = planted.log.with_suffix(".timeindex")
    path.write_bytes(path.read_bytes()[:-12])


def aborted_transaction_is_forgotten(planted: Planted) -> None:
    for path in planted.folder.glob("*.txnindex"):
        path.unlink()


def aborted_transaction_is_another(planted: Planted) -> None:
    for path in planted.folder.glob("*.txnindex"):
        if path.stat().st_size:
            planted.flip(path, 9)


def snapshot_is_damaged(planted: Planted) -> None:
    planted.flip(sorted(planted.folder.glob("*.snapshot"))[-1], 20)


def snapshot_of_another_log(planted: Planted) -> None:
    first, *_, last = sorted(planted.folder.glob("*.snapshot"))
    last.write_bytes(first.read_bytes())


def epochs_are_garbage(planted: Planted) -> None:
    (planted.folder / "leader-epoch-checkpoint").write_text("0\n3\nnonsense\n")


def epochs_are_others(planted: Planted) -> None:
    (planted.folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 17\n")


def topic_id_is_garbage(planted: Planted) -> None:
    (planted.folder / "partition.metadata").write_text("version: 0\ntopic_id: ?\n")


def index_without_a_log(planted: Planted) -> None:
    (planted.folder / f"{99999:020d}.index").write_bytes(bytes(8))


def checkpoint_is_garbage(planted: Planted) -> None:
    (planted.path / "recovery-point-offset-checkpoint").write_text("0\n9\ntides 0 3\n")


def checkpoint_is_behind_the_end(planted: Planted) -> None:
    (planted.path / "replication-offset-checkpoint").write_text("0\n1\ntides 0 100000\n")


def owner_is_garbage(planted: Planted) -> None:
    (planted.path / "meta.properties").write_text("version=1\n")


DAMAGES: list[tuple[Callable[[Planted], None], str]] = [
    (flipped_bit_in_a_record, "checksum"),
    (flipped_bit_in_a_header, "checksum"),
    (changed_base_offset, "gap"),
    (changed_base_offset_of_the_last_batch, "gap"),
    (changed_leader_epoch, "epoch"),
    (torn_end, "torn-end"),
    (zeros_in_the_middle, "zeros"),
    (zeros_at_the_end, "zeros"),
    (wrong_length, "no-batch"),
    (wrong_magic, "no-batch"),
    (records_that_are_none, "records"),
    (fewer_records_than_said, "records"),
    (compressed_bytes_that_are_not, "records"),
    (wrong_largest_timestamp, "timestamp"),
    (missing_segment, "gap"),
    (missing_batch, "gap"),
    (batch_twice, "order"),
    (segment_under_another_name, "order"),
    (offset_index_leads_nowhere, "index-entry"),
    (offset_index_is_torn, "index-torn"),
    (offset_index_is_gone, "index-missing"),
    (time_index_lies, "index-entry"),
    (time_index_lacks_its_end, "index-short"),
    (aborted_transaction_is_forgotten, "transaction-missing"),
    (aborted_transaction_is_another, "transaction-unknown"),
    (snapshot_is_damaged, "snapshot"),
    (snapshot_of_another_log, "snapshot"),
    (epochs_are_garbage, "epochs"),
    (epochs_are_others, "epoch"),
    (topic_id_is_garbage, "topic-id"),
    (index_without_a_log, "orphan"),
    (checkpoint_is_garbage, "checkpoint"),
    (checkpoint_is_behind_the_end, "checkpoint-beyond-end"),
    (owner_is_garbage, "owner"),
]


def kinds_found(path: Path, *, with_records: bool = True) -> set[str]:
    return {
        finding.kind
        for _, audit in audit_directory(RealFiles(), str(path), with_records=with_records)
        for finding in audit.findings
        if finding.severity is not Severity.NOTED
    }


def test_a_sound_log_has_no_damage(sound: Path) -> None:
    assert len(list((sound / str(PARTITION)).glob("*.log"))) >= 3
    assert kinds_found(sound) == set()


@pytest.mark.parametrize(("damage", "kind"), DAMAGES, ids=lambda value: getattr(value, "__name__", None))
def test_planted_damage_is_found(damage: Callable[[Planted], None], kind: str, sound: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(sound, tmp_path / "data")
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    damage(Planted(copy))
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} != before

    assert kind in kinds_found(copy)


def test_a_compacted_log_is_sound(tmp_path: Path) -> None:
    clock = SimulatedClock(NOON_MS)
    log = new_log(RealFiles(), clock, str(tmp_path / "tides-0"), LogConfig(segment_bytes=1000, compacted=True))
    for number in range(40):
        keyed(log, (b"k%d" % (number % 5), b"v" * 50), (b"other", None), timestamp=NOON_MS + number)
        if number % 10 == 5:
            keyed(log, (b"t", b"v"), producer=(9, 0, number // 10), is_transactional=True)
            end_transaction(log, 9, commit=number % 20 == 5)
    compact(log)
    compact(log, now_ms=NOON_MS + 10**9)
    append(log, b"after")
    log.close()

    audit = audit_partition(RealFiles(), log.directory)
    assert audit.is_compacted
    assert [finding for finding in audit.findings if finding.severity is not Severity.NOTED] == []


def test_an_offset_index_that_lacks_its_end_is_found_and_large_batches_are_no_damage(tmp_path: Path) -> None:
    clock = SimulatedClock(NOON_MS)
    log = new_log(RealFiles(), clock, str(tmp_path / "tides-0"), LogConfig(segment_bytes=400_000))
    for _ in range(40):
        append(log, b"." * 15_000)
    append(log, b"." * 390_000)
    append(log, b"one more, in the next segment", b"." * 300_000)
    log.close()
    assert audit_partition(RealFiles(), log.directory).findings == []

    first = sorted((tmp_path / "tides-0").glob("*.index"))[0]
    first.write_bytes(first.read_bytes()[:40])
    assert [finding.kind for finding in audit_partition(RealFiles(), log.directory).findings] == ["index-short"]


def test_an_index_that_begins_anew_behind_a_large_batch_is_sound(tmp_path: Path) -> None:
    """Apache Kafka does not know after a restart how many bytes have no entry yet."""
    log = new_log(RealFiles(), SimulatedClock(NOON_MS), str(tmp_path / "tides-0"), LogConfig(segment_bytes=400_000))
    for size in (390_000, 2_000, 300_000):
        append(log, b"." * size)
    log.close()
    first = sorted((tmp_path / "tides-0").glob("*.index"))[0]
    first.write_bytes(b"")

    assert audit_partition(RealFiles(), log.directory).findings == []
