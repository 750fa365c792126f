"""A disk that is nearly full or full, under a running broker: producers are told, everything else goes on."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import tidelog
from harness.raw_client import RawClient, batch_of, create_topic, fetch_request, produce, produce_request
from tidelog.env.files import Bytes, RealFile, RealFiles
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse


class Disk:
    """How much room the file system claims to have, and whether it takes writes."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.free_bytes = 10**12
        self.is_full = False
        self.spares_metadata = False
        patch.setattr(RealFiles, "free_bytes", lambda _self, _path: self.free_bytes)
        write = RealFile.write

        def write_unless_full(file: RealFile, buffers: Sequence[Bytes], position: int) -> None:
            if self.is_full and not (self.spares_metadata and "__cluster_metadata" in file.path):
                raise OSError(errno.ENOSPC, "made to be full", file.path)
            write(file, buffers, position)

        patch.setattr(RealFile, "write", write_unless_full)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def answer_of(client: RawClient, topic: str) -> PartitionProduceResponse:
    response = client.ask(produce_request(topic, batch_of(b"v")), ProduceResponse, 12)
    (answer,) = response.responses[0].partition_responses
    return answer


def read_count(client: RawClient, topic: str) -> int:
    response = client.ask(fetch_request(topic, {0: 0}), FetchResponse, 12)
    return response.responses[0].partitions[0].high_watermark


def wait_until(is_so: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be so"
        time.sleep(0.05)


def test_a_nearly_full_disk_refuses_producers_while_reads_and_metadata_go_on(disk: Disk, tmp_path: Path) -> None:
    with tidelog.Broker(data=tmp_path / "data") as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "tides")
        assert produce(client, "tides", b"before") == 0

        disk.free_bytes = 1024
        wait_until(lambda: answer_of(client, "tides").error_code == ErrorCode.KAFKA_STORAGE_ERROR)
        refused = answer_of(client, "tides")
        count = read_count(client, "tides")
        create_topic(client, "made-meanwhile")

        assert "nearly full" in (refused.error_message or "")
        assert str(tmp_path) in (refused.error_message or "")
        assert count >= 1
        wait_until(lambda: answer_of(client, "made-meanwhile").error_code == ErrorCode.KAFKA_STORAGE_ERROR)

        disk.free_bytes = 10**12
        wait_until(lambda: answer_of(client, "tides").error_code == 0)
        assert read_count(client, "tides") == count + 1


def test_a_broker_that_starts_on_a_nearly_full_disk_refuses_from_the_first_request_on(
    disk: Disk, tmp_path: Path
) -> None:
    with tidelog.Broker(data=tmp_path / "data") as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "tides")
    disk.free_bytes = 1024
    with tidelog.Broker(data=tmp_path / "data") as broker, RawClient(broker.bootstrap_servers) as client:
        assert answer_of(client, "tides").error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_full_disk_refuses_every_write_and_harms_nothing(disk: Disk, tmp_path: Path) -> None:
    checkpoints = {"log.flush.offset.checkpoint.interval.ms": 100, "log.retention.check.interval.ms": 100}
    with (
        tidelog.Broker(data=tmp_path / "data", config=checkpoints) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        create_topic(client, "tides")
        produce(client, "tides", b"before")

        disk.is_full = True
        assert answer_of(client, "tides").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        created = client.ask(CreateTopicsRequest([CreatableTopic("no-room", 1, 1)]), CreateTopicsResponse)
        time.sleep(0.5)  # Checkpoints and retention find no room, either.
        assert created.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert read_count(client, "tides") == 1

        disk.is_full = False
        assert produce(client, "tides", b"after") == 1
        create_topic(client, "no-room")
        names = {topic.name for topic in client.ask(MetadataRequest(None), MetadataResponse).topics}
        assert names == {"tides", "no-room"}
    with tidelog.Broker(data=tmp_path / "data") as broker, RawClient(broker.bootstrap_servers) as client:
        assert read_count(client, "tides") == 2


def test_partitions_that_there_was_no_room_for_are_made_when_there_is(disk: Disk, tmp_path: Path) -> None:
    with tidelog.Broker(data=tmp_path / "data") as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "tides")
        disk.spares_metadata = disk.is_full = True
        create_topic(client, "late", 3)
        assert answer_of(client, "late").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert read_count(client, "tides") == 0, "the others are served"

        disk.is_full = False
        wait_until(lambda: answer_of(client, "late").error_code == 0)
        assert produce(client, "late", b"v", partition=2) == 0
        assert produce(client, "tides", b"v") == 0
