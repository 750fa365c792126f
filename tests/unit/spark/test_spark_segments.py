"""`via=segments`: the same rows as over the network, whatever retention and compaction do meanwhile.

Readers run in this process, as a task of Spark would call them.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import tidelog
from tidelog.client.admin import Admin, accepted
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.spark.batch_reader import BatchReader
from tidelog.spark.errors import DataLoss, InvalidOption, ReadFailed
from tidelog.spark.options import parse_read_options
from tidelog.spark.schema import full_schema
from tidelog.spark.stream_limits import LimitedStreamReader
from tidelog.spark.stream_reader import StreamReader
from tidelog.spark.tasks import RangePartition

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS_MAX = 60
# A segment is full when its index is: that is sooner than the least size that a segment may be given.
SMALL_SEGMENTS = {"segment_index_bytes": "192", "index_interval_bytes": "1024"}
Rows = list[tuple[object, ...]]


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    settings = {
        "log.retention.check.interval.ms": 100,
        "log.cleaner.backoff.ms": 100,
        "log.segment.delete.delay.ms": 200,
        "log.initial.task.delay.ms": 0,
    }
    with tidelog.Broker(config=settings) as running:
        yield running


def create(broker: tidelog.Broker, topic: str, partitions: int = 1, **settings: str) -> None:
    configs = {name.replace("_", "."): value for name, value in settings.items()}
    with Cluster(broker.bootstrap_servers) as cluster:
        wanted = NewTopic(TopicName(topic), partitions, configs=configs)
        accepted(Admin(cluster).create_topics([wanted])[TopicName(topic)])


def reader(broker: tidelog.Broker, topic: str, **options: str) -> BatchReader:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, **options}
    return BatchReader(parse_read_options(given, streaming=False), full_schema(True))


def rows(reading: BatchReader | StreamReader, tasks: list[RangePartition] | None = None) -> Rows:
    found: Rows = []
    for task in reading.partitions() if tasks is None and isinstance(reading, BatchReader) else tasks or []:
        for batch in reading.read(task):
            columns = [column.to_pylist() for column in batch.columns]
            columns[-1] = [str(headers) for headers in columns[-1]]
            found += zip(*columns, strict=True)
    return found


def both_ways(broker: tidelog.Broker, topic: str, **options: str) -> tuple[Rows, Rows]:
    return rows(reader(broker, topic, **options)), rows(reader(broker, topic, via="segments", **options))


def wait_until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def segment_files(broker: tidelog.Broker, topic: str, suffix: str = ".log") -> list[Path]:
    return sorted((broker.data / f"{topic}-0").glob(f"*{suffix}"))


@pytest.mark.req("S9")
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_the_same_with_every_compression_transactions_and_several_segments(
    broker: tidelog.Broker, topic: str, seed: int
) -> None:
    drawn = random.Random(seed)
    create(broker, topic, 2, **SMALL_SEGMENTS)
    plain = {
        kind: tidelog.Producer(bootstrap_servers=broker.bootstrap_servers, compression=kind) for kind in COMPRESSIONS
    }
    transactional = [
        tidelog.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=f"{topic}-{number}")
        for number in range(2)
    ]
    for one in transactional:
        one.init_transactions()
        one.begin_transaction()
    for number in range(80):
        sender = drawn.choice([*plain.values(), *transactional])
        for _ in range(drawn.randrange(1, 20)):
            value = None if drawn.random() < 0.05 else drawn.randbytes(drawn.randrange(200))
            headers = [("h", b"%d" % number)] if drawn.random() < 0.3 else None
            sender.send(topic, value, b"%d" % drawn.randrange(50), headers=headers, partition=drawn.randrange(2))
        sender.flush()
        if sender in transactional and drawn.random() < 0.4:
            (sender.commit_transaction if drawn.random() < 0.5 else sender.abort_transaction)()
            sender.begin_transaction()

    for level in ("read_committed", "read_uncommitted"):
        isolation = {"kafka.isolation.level": level}
        network, segments = both_ways(broker, topic, **isolation)
        assert network and segments == network
        # Where open transactions begin differs from seed to seed: nothing is readable from there on.
        ends = {number: max(int(str(row[4])) for row in network if row[3] == number) for number in (0, 1)}
        bounds = {
            "starting": {str(number): min(33, end // 3) for number, end in ends.items()},
            "ending": {str(number): end - end // 5 for number, end in ends.items()},
        }
        bounded = {f"{side}Offsets": json.dumps({topic: at}) for side, at in bounds.items()}
        network, segments = both_ways(broker, topic, fetchBytes="5000", minPartitions="6", **isolation, **bounded)
        assert network and segments == network
    assert len(segment_files(broker, topic)) > 2

    for one in transactional:
        one.abort_transaction()
    for one in [*plain.values(), *transactional]:
        one.close()


def test_a_compacted_topic_has_the_same_rows(broker: tidelog.Broker, topic: str) -> None:
    create(broker, topic, **SMALL_SEGMENTS, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    with tidelog.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(3000):
            producer.send(topic, b"%d" % number * 10, b"%d" % (number % 40))
            if number % 10 == 0:
                producer.flush()
    wait_until(lambda: len(rows(reader(broker, topic))) < 1500)
    before = rows(reader(broker, topic))

    segments = rows(reader(broker, topic, via="segments"))

    after = rows(reader(broker, topic))
    # The cleaner may have been at it again in between: every row was there before, and none that stayed is missing.
    assert set(after) <= set(segments) <= set(before)
    assert [row[4] for row in segments] == sorted({row[4] for row in segments}), "in order, each once"


def test_a_reading_goes_on_to_its_end_while_retention_takes_the_files_away(broker: tidelog.Broker, topic: str) -> None:
    create(broker, topic, **SMALL_SEGMENTS)
    fill(broker, topic, 2000)
    reading = reader(broker, topic, via="segments", fetchBytes="2000")
    [task] = reading.partitions()
    batches = reading.read(task)
    seen = next(batches).num_rows

    with Cluster(broker.bootstrap_servers) as cluster:
        place = TopicPartition(TopicName(topic), PartitionIndex(0))
        accepted(Admin(cluster).delete_records({place: Offset(2000)})[place])
    wait_until(lambda: len(segment_files(broker, topic)) == 1 and not segment_files(broker, topic, ".deleted"))

    assert seen + sum(batch.num_rows for batch in batches) == 2000


def test_what_retention_took_between_planning_and_reading_is_named(broker: tidelog.Broker, topic: str) -> None:
    create(broker, topic, **SMALL_SEGMENTS)
    fill(broker, topic, 2000)
    careful = reader(broker, topic, via="segments")
    careless = reader(broker, topic, via="segments", failOnDataLoss="false")
    tasks = careful.partitions()
    place = TopicPartition(TopicName(topic), PartitionIndex(0))
    with Cluster(broker.bootstrap_servers) as cluster:
        accepted(Admin(cluster).delete_records({place: Offset(1000)})[place])
    wait_until(lambda: segment_files(broker, topic)[0].stem != f"{0:020d}")
    wait_until(lambda: not segment_files(broker, topic, ".deleted"))
    first = int(segment_files(broker, topic)[0].stem)

    with pytest.raises(DataLoss, match=f"Offsets 0 to {first - 1} of {topic}-0 are gone: its files begin at {first}"):
        rows(careful, tasks)
    assert [row[4] for row in rows(careless, tasks)] == list(range(first, 2000))


def test_files_that_retention_has_only_renamed_are_still_read(broker: tidelog.Broker, topic: str) -> None:
    create(broker, topic, **SMALL_SEGMENTS, file_delete_delay_ms="60000")
    fill(broker, topic, 2000)
    reading = reader(broker, topic, via="segments")
    tasks = reading.partitions()
    with Cluster(broker.bootstrap_servers) as cluster:
        place = TopicPartition(TopicName(topic), PartitionIndex(0))
        accepted(Admin(cluster).delete_records({place: Offset(1000)})[place])
    wait_until(lambda: segment_files(broker, topic)[0].stem != f"{0:020d}")

    assert [row[4] for row in rows(reading, tasks)] == list(range(2000))


def test_rows_are_complete_while_compaction_and_retention_run_all_the_time(broker: tidelog.Broker, topic: str) -> None:
    """Of every key the newest value is there, whatever is replaced or removed while the files are opened and read."""
    create(
        broker,
        topic,
        **SMALL_SEGMENTS,
        cleanup_policy="compact,delete",
        min_cleanable_dirty_ratio="0.01",
        retention_bytes="400000",
        file_delete_delay_ms="0",
    )
    stopping = threading.Event()
    with tidelog.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:

        def keep_writing() -> None:
            number = 0
            while not stopping.is_set():
                for _ in range(50):
                    producer.send(topic, b"%09d" % number * 10, b"%d" % (number % 200))
                    number += 1
                producer.flush()

        writer = threading.Thread(target=keep_writing)
        writer.start()
        try:
            wait_until(lambda: segment_files(broker, topic)[:1] != [] and len(segment_files(broker, topic)) > 3)
            reads = 0
            swapped: set[int] = set()
            until = time.monotonic() + 3
            while time.monotonic() < until or reads < 10:
                reading = reader(broker, topic, via="segments", failOnDataLoss="false")
                tasks = [task for task in reading.partitions() if isinstance(task, RangePartition)]
                found = rows(reading, tasks)
                offsets = [int(str(row[4])) for row in found]
                wanted = tasks[0].wanted
                assert wanted is not None
                assert offsets == sorted(set(offsets)) and offsets[-1] == wanted.end - 1
                assert all(bytes(str(row[1]), "ascii")[2:11].isdigit() for row in found)
                newest = {row[0] for row in found}
                assert len(newest) == 200 or wanted.end < 200
                with suppress(FileNotFoundError):  # It is gone again.
                    swapped.add(segment_files(broker, topic)[0].stat().st_ino)
                reads += 1
        finally:
            stopping.set()
            writer.join()
    assert len(swapped) > 1, "the files must have changed while they were read"


def test_a_stream_reads_segments_too(broker: tidelog.Broker, topic: str) -> None:
    create(broker, topic, **SMALL_SEGMENTS)
    fill(broker, topic, 1000)
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": topic,
        "via": "segments",
        "startingOffsets": "earliest",
    }
    stream = LimitedStreamReader(parse_read_options(given, streaming=True), full_schema(True))
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    tasks = [task for task in stream.partitions(start, end) if isinstance(task, RangePartition)]

    assert [row[4] for row in rows(stream, tasks)] == list(range(1000))
    stream.stop()


def test_directories_can_be_named_and_what_is_not_there_is_said(
    broker: tidelog.Broker, topic: str, tmp_path: Path
) -> None:
    create(broker, topic)
    fill(broker, topic, 10)
    named = reader(broker, topic, via="segments", logDirs=f"{tmp_path},{broker.data}")
    tasks = named.partitions()

    assert len(rows(named)) == 10
    with pytest.raises(InvalidOption, match=f"cannot read {topic}-0: none of {tmp_path}"):
        rows(reader(broker, topic, via="segments", logDirs=str(tmp_path)))
    with pytest.raises(InvalidOption, match="via is network or segments"):
        reader(broker, topic, via="air")
    with pytest.raises(InvalidOption, match="logDirs is for via=segments"):
        reader(broker, topic, logDirs=str(tmp_path))

    with Cluster(broker.bootstrap_servers) as cluster:
        Admin(cluster).delete_topics([TopicName(topic)])
    wait_until(lambda: not (broker.data / f"{topic}-0").exists())
    with pytest.raises(ReadFailed, match=f"Reading {topic}-0 at offset 0 failed.*is gone"):
        rows(named, [task for task in tasks if isinstance(task, RangePartition)])


def test_a_folder_of_a_topic_that_is_another_by_now_is_not_read(
    broker: tidelog.Broker, topic: str, tmp_path: Path
) -> None:
    create(broker, topic)
    (tmp_path / "meta.properties").write_bytes((broker.data / "meta.properties").read_bytes())
    folder = tmp_path / f"{topic}-0"
    folder.mkdir()
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAZA\n")
    fill(broker, topic, 1)

    with pytest.raises(InvalidOption, match="belongs to another topic"):
        rows(reader(broker, topic, via="segments", logDirs=str(tmp_path)))


def fill(broker: tidelog.Broker, topic: str, records: int) -> None:
    with tidelog.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(records):
            producer.send(topic, b"value %d" % number * 10, b"%d" % number)
            if number % 20 == 19:
                producer.flush()
