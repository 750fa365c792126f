"""Topics for one measurement: made, waited for, looked at, deleted, by the raw client that the tests use."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import msgspec

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
LATEST: Final = -1
LIST_OFFSETS_VERSION: Final = 7
# A deleted topic must not be written back to the disk while the next measurement runs.
DELETED_AT_ONCE: Final = {"file_delete_delay_ms": "0"}


class Topic(msgspec.Struct, frozen=True):
    name: str
    id: UUID
    partitions: int


@contextmanager
def topic_on(port: int, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> Iterator[Topic]:
    """A topic whose partitions all have a leader; gone afterwards."""
    with RawClient(f"{HOST}:{port}", ADMIN_SECONDS_MAX) as client:
        topic = Topic(
            name, create_topic(client, name, partitions, **{**DELETED_AT_ONCE, **(settings or {})}), partitions
        )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while end_offsets(client, topic) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {name} got no leaders")
            time.sleep(0.02)
    yield topic
    with RawClient(f"{HOST}:{port}", ADMIN_SECONDS_MAX) as client:
        request = DeleteTopicsRequest([DeleteTopicState(None, topic.id)], timeout_ms=int(ADMIN_SECONDS_MAX * 1000))
        (deleted,) = client.ask(request, DeleteTopicsResponse).responses
        assert deleted.error_code == 0, deleted.error_message


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
