"""The metadata log of a single broker: snapshots keep it short, a clean restart writes next to nothing."""

from __future__ import annotations

from pathlib import Path

from harness.raw_client import RawClient
from harness.waiting import wait_until
from tidelog import Broker
from tidelog.wire.batch import iter_headers
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse


def folder_of(data: Path) -> Path:
    return data / "__cluster_metadata-0"


def records_in(data: Path) -> int:
    """How many records the segments of the metadata log hold."""
    return sum(
        header.records_count
        for path in folder_of(data).glob("*.log")
        for _, header in iter_headers(memoryview(path.read_bytes()))
    )


def create(broker: Broker, name: str, partitions: int) -> None:
    with RawClient(broker.bootstrap_servers, timeout_seconds=30) as client:
        request = CreateTopicsRequest(topics=[CreatableTopic(name, partitions, 1)])
        assert client.ask(request, CreateTopicsResponse).topics[0].error_code == 0


def topics(broker: Broker) -> MetadataResponse:
    with RawClient(broker.bootstrap_servers, timeout_seconds=30) as client:
        return client.ask(MetadataRequest(topics=None), MetadataResponse)


def test_a_restart_does_not_write_a_record_for_each_partition(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        create(broker, "wide", 1000)
        before = topics(broker).topics
    written = records_in(tmp_path)
    for _ in range(2):
        with Broker(data=tmp_path) as broker:
            assert topics(broker).topics == before
    assert records_in(tmp_path) - written <= 2 * 3


def test_snapshots_keep_the_log_short_and_bring_everything_back(tmp_path: Path) -> None:
    config = {"metadata.log.max.record.bytes.between.snapshots": 3000}
    folder = folder_of(tmp_path)
    with Broker(data=tmp_path, config=config) as broker:
        for number in range(30):
            create(broker, f"topic-{number}", 10)
        wait_until(lambda: len(list(folder.glob("*.checkpoint"))) == 2)
        before = topics(broker).topics
    first = min(int(path.stem) for path in folder.glob("*.log"))
    assert first > 0, "what the snapshots hold is gone from the log"
    assert len(list(folder.glob("*.checkpoint"))) == 2
    with Broker(data=tmp_path, config=config) as broker:
        assert topics(broker).topics == before


def test_a_snapshot_that_a_crash_left_unfinished_is_not_believed(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        create(broker, "kept", 3)
    unfinished = folder_of(tmp_path) / "00000000000000000999-0000000001.checkpoint.part"
    unfinished.write_bytes(b"half of it")
    with Broker(data=tmp_path) as broker:
        assert [topic.name for topic in topics(broker).topics] == ["kept"]
    assert not unfinished.exists()
