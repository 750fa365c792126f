"""The same folders, read and written by us and by a real Apache Kafka."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.apache_kafka import apache_kafka
from harness.java import dump_log_segments
from harness.logs import NOON_MS, append, batch_of, check_indexes, new_log, stage, values_of
from harness.server import ServerProcess
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFiles
from tidelog.log.audit import Severity
from tidelog.log.audit_directory import audit_directory
from tidelog.log.checkpoints import encode_uuid
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicName
from tidelog.model.ids import TopicPartition as PartitionId
from tidelog.wire.batch import read_header
from tidelog.wire.compression import Compression
from tidelog.wire.control import EndTransaction, build_end_transaction

TOPIC = "shared"
SHARED = PartitionId(TopicName(TOPIC), PartitionIndex(0))
COMPLAINT = re.compile(
    r"mismatch|corrupt|invalid|isvalid: false|not found|exception|error|non-increasing", re.IGNORECASE
)
CONFIG = LogConfig(segment_bytes=100_000)


def complaints(output: str) -> list[str]:
    return [line for line in output.splitlines() if COMPLAINT.search(line) and "isvalid: true" not in line]


# --- Apache Kafka reads what we wrote ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> PartitionLog:
    """A closed log with everything in it: segments, compression, producers, epochs, an aborted transaction."""
    folder = tmp_path_factory.mktemp("ours") / "tides-0"
    log = new_log(RealFiles(), SimulatedClock(NOON_MS), str(folder), LogConfig(segment_bytes=20_000))
    codecs = list(Compression)
    for number in range(400):
        batch = batch_of(
            [b"%d" % number * 20] * (number % 4 + 1),
            timestamp=NOON_MS + (number * 37) % 1000 + number,
            step_ms=1,
            producer=(7, 0, number // 4) if number % 4 == 0 else None,
            compression=codecs[number % len(codecs)],
        )
        stage(log, batch, number // 150)
        if number % 9 == 0:
            log.write_staged()
    stage(log, batch_of([b"in a transaction"], producer=(8, 0, 0), is_transactional=True), 3)
    marker = build_end_transaction(EndTransaction(False, 5), ProducerId(8), ProducerEpoch(0), NOON_MS)
    view = memoryview(bytearray(marker))
    log.stage(read_header(view), view, LeaderEpoch(3))
    log.write_staged()
    log.close()
    assert len(log.segments) > 2
    return log


def files_of(log: PartitionLog, *suffixes: str) -> list[Path]:
    return sorted(path for path in Path(log.directory).iterdir() if path.suffix in suffixes)


@pytest.mark.req("B3", "B4", "B5", "B6", "B7")
def test_apache_kafka_reads_our_segments_and_indexes_without_complaint(written: PartitionLog) -> None:
    names = files_of(written, ".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    output = dump_log_segments(*names, arguments=("--deep-iteration", "--print-data-log"))

    assert complaints(output) == []
    assert len(re.findall(r"^\| offset: ", output, re.MULTILINE)) == len(values_of(written))
    assert "endTxnMarker: ABORT coordinatorEpoch: 5" in output
    assert re.search(r"producerId: 7 .* firstSequence: 99 lastSequence: 99 ", output)
    assert re.search(r"version: 0 producerId: 8 firstOffset: 1000 lastOffset: 1001 lastStableOffset: 1002", output)
    for segment in written.segments:
        assert output.count(f"{segment.base_offset:020d}.log") == 1


@pytest.mark.req("B5", "B6")
def test_apache_kafka_finds_our_indexes_sane(written: PartitionLog) -> None:
    names = files_of(written, ".index", ".timeindex")
    output = dump_log_segments(*names, arguments=("--index-sanity-check",))

    assert output.count("passed sanity check") == len(names)


def test_apache_kafka_would_complain_about_a_wrong_index(written: PartitionLog, tmp_path: Path) -> None:
    copy = tmp_path / "tides-0"
    shutil.copytree(written.directory, copy)
    index = copy / "00000000000000000000.index"
    data = bytearray(index.read_bytes())
    data[3] ^= 1
    index.write_bytes(data)

    assert complaints(dump_log_segments(index)) != []


# --- we read what Apache Kafka wrote ----------------------------------------------------------------------------------


def produce(server: ServerProcess, count: int, start: int = 0) -> None:
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": compression,
                "linger.ms": 5,
                "batch.num.messages": 7,
            }
        )
        for number in range(start, start + count):
            producer.produce(TOPIC, b"%s-%d" % (compression.encode(), number), timestamp=NOON_MS + number)
        assert producer.flush(30) == 0


def transact(server: ServerProcess, *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "transactional.id": "teller"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(TOPIC, b"committed" if commit else b"aborted", timestamp=NOON_MS)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def consume(server: ServerProcess, *, isolation: str = "read_uncommitted") -> dict[int, bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: dict[int, bytes] = {}
    while True:
        message = consumer.poll(30)
        assert message is not None
        failure = message.error()
        if failure is not None:
            assert failure.code() == KafkaError._PARTITION_EOF, failure
            consumer.close()
            return found
        found[message.offset()] = message.value()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A real Apache Kafka with a topic of several segments; tests stop it to look at its files, and start it again."""
    server = apache_kafka(tmp_path_factory.mktemp("kafka"))
    server.start()
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    settings = {"segment.bytes": "1048576", "segment.index.bytes": "20000", "index.interval.bytes": "100"}
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=settings)])[TOPIC].result(30)
    produce(server, 300)
    transact(server, commit=True)
    transact(server, commit=False)
    yield server
    server.stop()


def opened(folder: Path) -> LogDirectories:
    directories = LogDirectories([str(folder)], RealFiles(), SimulatedClock(NOON_MS))
    directories.load(lambda partition: LogConfig(compacted=partition.topic.startswith("__")))
    assert not directories.offline()
    assert not directories.directories[0].broken
    return directories


def data_of(kafka: ServerProcess) -> Path:
    return kafka.folder / "data"


@pytest.mark.req("B1", "B8", "B9", "C9")
@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_a_folder_that_apache_kafka_wrote_is_ours_to_read(kafka: ServerProcess, tmp_path: Path, stop: str) -> None:
    if not kafka.is_alive():
        kafka.start()
    expected = consume(kafka)
    committed = consume(kafka, isolation="read_committed")
    kafka.stop() if stop == "clean" else kafka.kill()
    shutil.copytree(data_of(kafka), tmp_path / "data")
    kafka.start()
    if stop == "clean":
        audits = audit_directory(RealFiles(), str(tmp_path / "data"))
        findings = [finding for _, audit in audits for finding in audit.findings]
        assert [finding for finding in findings if finding.severity is not Severity.NOTED] == []

    directories = opened(tmp_path / "data")
    log = directories.partitions()[SHARED]
    assert directories.directories[0].was_clean == (stop == "clean")
    owner = directories.directories[0].owner
    assert owner is not None
    assert owner.node_id == 1
    metadata = Path(log.directory, "partition.metadata").read_text()
    assert log.topic_id is not None
    assert encode_uuid(log.topic_id) in metadata
    found = values_of(log)
    assert {offset: found[offset] for offset in expected} == expected
    assert log.epochs.entries != ()
    aborted = log.aborted_transactions(Offset(0), log.end_offset)
    assert [found[one.first_offset] for one in aborted] == [b"aborted"]
    assert set(committed) == set(expected) - {one.first_offset for one in aborted}
    log.producers.replicated_up_to(log.end_offset)
    assert log.last_stable_offset(log.end_offset) == log.end_offset
    assert len(log.producers) >= 6
    assert len(log.segments) > 1
    if stop == "killed":
        check_indexes(log)  # Made again by us. Apache Kafka's own entries are for several batches at a time.
    for number in (0, 150, 299):
        by_time = log.offset_for_timestamp(NOON_MS + number)
        assert by_time is not None
        assert by_time.timestamp == NOON_MS + number
    directories.close()


@pytest.mark.req("B1", "B9")
def test_apache_kafka_goes_on_with_what_we_appended_to_its_folder(kafka: ServerProcess) -> None:
    if not kafka.is_alive():
        kafka.start()
    before = consume(kafka)
    kafka.stop()
    directories = opened(data_of(kafka))
    log = directories.partitions()[SHARED]
    log.configure(CONFIG)
    ours = {}
    for number in range(2000):
        base = append(log, b"ours-%d" % number * 10, epoch=log.epochs.latest, timestamp=NOON_MS + 1000 + number)
        ours[int(base)] = b"ours-%d" % number * 10
    assert len(log.segments) > 3
    directories.high_watermarks[SHARED] = log.end_offset
    directories.close()

    kafka.start()
    assert consume(kafka) == before | ours
    produce(kafka, 5, start=10_000)
    assert len(consume(kafka)) == len(before) + len(ours) + 25
    kafka.stop()
    again = opened(data_of(kafka))
    found = values_of(again.partitions()[SHARED])
    assert {offset: found[offset] for offset in ours} == ours
    assert sum(value.endswith(b"-10003") for value in found.values()) == 5
    again.close()
