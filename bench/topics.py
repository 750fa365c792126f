"""Topics for one measurement: made, waited for, looked at, deleted, by the raw client that the tests use."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol
from uuid import UUID

import msgspec

from bench.memory import use_up_free_memory
from bench.process import cpu_time
from harness.raw_client import RawClient, create_topic
from harness.server import HOST
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

READY_SECONDS_MAX: Final = 60.0
ADMIN_SECONDS_MAX: Final = 60.0
# A server rests when it uses less than this part of a core.
REST_CPU_PART: Final = 0.1
REST_INTERVAL_SECONDS: Final = 0.2
REST_SECONDS_MAX: Final = 15.0
LATEST: Final = -1
LIST_OFFSETS_VERSION: Final = 7
# A deleted topic must not be written back to the disk while the next measurement runs.
DELETED_AT_ONCE: Final = {"file_delete_delay_ms": "0"}


class Server(Protocol):
    """A running server, as far as topics are concerned."""

    @property
    def port(self) -> int: ...

    @property
    def pid(self) -> int: ...


class Topic(msgspec.Struct, frozen=True):
    name: str
    id: UUID
    partitions: int


@contextmanager
def topic_on(
    server: Server, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None
) -> Iterator[Topic]:
    """A topic whose partitions all have a leader, on a server that has come to rest; gone afterwards."""
    with RawClient(f"{HOST}:{server.port}", ADMIN_SECONDS_MAX) as client:
        topic = Topic(
            name, create_topic(client, name, partitions, **{**DELETED_AT_ONCE, **(settings or {})}), partitions
        )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while end_offsets(client, topic) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {name} got no leaders")
            time.sleep(0.02)
    _let_rest(server.pid)
    use_up_free_memory()
    yield topic
    with RawClient(f"{HOST}:{server.port}", ADMIN_SECONDS_MAX) as client:
        request = DeleteTopicsRequest([DeleteTopicState(None, topic.id)], timeout_ms=int(ADMIN_SECONDS_MAX * 1000))
        (deleted,) = client.ask(request, DeleteTopicsResponse).responses
        assert deleted.error_code == 0, deleted.error_message


def _let_rest(pid: int) -> None:
    """Wait until the server is done with what came before: a deleted topic, a cold start."""
    deadline = time.monotonic() + REST_SECONDS_MAX
    before = cpu_time(pid)
    while time.monotonic() < deadline:
        time.sleep(REST_INTERVAL_SECONDS)
        now = cpu_time(pid)
        if now.since(before).total <= REST_INTERVAL_SECONDS * REST_CPU_PART:
            return
        before = now


def end_offsets(client: RawClient, topic: Topic) -> list[int] | None:
    """Where each partition ends; None while one of them has no leader."""
    wanted = [ListOffsetsPartition(index, -1, LATEST) for index in range(topic.partitions)]
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic.name, wanted)])
    (answer,) = client.ask(request, ListOffsetsResponse, LIST_OFFSETS_VERSION).topics
    if any(partition.error_code for partition in answer.partitions):
        return None
    return [partition.offset for partition in sorted(answer.partitions, key=lambda one: one.partition_index)]


def records_in(port: int, topic: Topic) -> int:
    with RawClient(f"{HOST}:{port}", ADMIN_SECONDS_MAX) as client:
        ends = end_offsets(client, topic)
    assert ends is not None, f"{topic.name} has no leader"
    return sum(ends)
