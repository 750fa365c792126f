"""A client that says exactly what a test wants said: one connection, any version, no retries, no opinion."""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import TypeVar
from uuid import UUID

from tidelog.wire.frames import FrameSplitter, decode_response, encode_request
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.wire.records import Record, build_batch
from tidelog.wire.schema import Request, Response, VersionRange

R = TypeVar("R", bound=Response)


class RawClient:
    def __init__(self, bootstrap_servers: str, timeout_seconds: float = 10.0, client_id: str = "raw") -> None:
        self._client_id = client_id
        host, port = bootstrap_servers.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout_seconds)
        self._splitter = FrameSplitter()
        self._frames: list[memoryview] = []
        self._correlation_id = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, request: Request, version: int | None = None) -> int:
        """Send without waiting; returns the correlation id."""
        self._correlation_id += 1
        wanted = VersionRange.parse(request.VERSIONS).last if version is None else version
        self.socket.sendall(encode_request(request, wanted, self._correlation_id, self._client_id))
        return self._correlation_id

    def receive(self, response: type[R], version: int | None = None) -> R:
        wanted = VersionRange.parse(response.VERSIONS).last if version is None else version
        while not self._frames:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the broker closed the connection")
            self._frames += self._splitter.feed(data)
        return decode_response(response, wanted, self._frames.pop(0))[1]

    def ask(self, request: Request, response: type[R], version: int | None = None) -> R:
        self.send(request, version)
        return self.receive(response, version)

    def is_closed_by_peer(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


def create_topic(client: RawClient, name: str, partitions: int = 1, **configs: str) -> UUID:
    """Create a topic; settings with underscores for dots. Returns its id."""
    settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1, [], settings)])
    (created,) = client.ask(request, CreateTopicsResponse).topics
    assert created.error_code == 0, created.error_message
    return created.topic_id


def batch_of(*values: bytes, timestamp_ms: int | None = None) -> bytes:
    now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    return build_batch([Record(index, now_ms, None, value) for index, value in enumerate(values)])


def produce_request(topic: str, batch: bytes | None, partition: int = 0, acks: int = 1) -> ProduceRequest:
    return ProduceRequest(
        None, acks, 10_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
    )


def produce(client: RawClient, topic: str, *values: bytes, partition: int = 0, acks: int = 1) -> int:
    """Produce one batch; returns its base offset."""
    response = client.ask(produce_request(topic, batch_of(*values), partition, acks), ProduceResponse, 12)
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == 0, answer.error_message
    return answer.base_offset


def fetch_request(
    topic: str,
    offsets: dict[int, int],
    *,
    session: tuple[int, int] = (0, -1),
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
) -> FetchRequest:
    """A fetch by topic name (v12)."""
    partitions = [
        FetchPartition(partition, -1, offset, partition_max_bytes=partition_max_bytes)
        for partition, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic, partitions=partitions)] if partitions else [],
    )
