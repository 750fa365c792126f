"""Fills a topic with so many bytes as fast as a server takes them, from batches that are made once and sent again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from bench.topics import ADMIN_SECONDS_MAX, Server
from harness.raw_client import RawClient, produce_request
from harness.server import HOST
from tidelog.wire.batch import HEADER_BYTES, read_header
from tidelog.wire.messages.produce import ProduceResponse
from tidelog.wire.records import Record, build_batch, seal_batch

PRODUCE_VERSION: Final = 9
IN_FLIGHT: Final = 4
RECORD_BYTES: Final = 100
# Together below the largest batch that a server takes by default.
RECORDS_IN_BATCH: Final = 7_000


def batches_of(count: int, *, with_keys: bool, records: int = RECORDS_IN_BATCH) -> list[bytes]:
    """Batches of 100-byte records, none of which has a key of another."""
    now_ms = int(time.time() * 1000)
    made = []
    for number in range(count):
        first = number * records
        keys = [b"%010d" % (first + index) if with_keys else None for index in range(records)]
        value = b"v" * (RECORD_BYTES - 10 * with_keys)
        made.append(build_batch([Record(0, now_ms, key, value) for key in keys]))
    return made


def fill(server: Server, topic: str, batches: Sequence[bytes], bytes_min: int, *, first_ms: int | None = None) -> int:
    """Send the batches again and again, in order, until that many bytes are there; returns how many there were.

    With `first_ms` each is of the next millisecond.
    """
    sent = batch = unanswered = 0
    with RawClient(f"{HOST}:{server.port}", ADMIN_SECONDS_MAX) as client:
        while sent < bytes_min or batch % len(batches):
            content = batches[batch % len(batches)]
            if first_ms is not None:
                content = _at(content, first_ms + batch)
            client.send(produce_request(topic, content), PRODUCE_VERSION)
            sent += len(content)
            batch += 1
            unanswered += 1
            if unanswered == IN_FLIGHT:
                _check(client)
                unanswered -= 1
        for _ in range(unanswered):
            _check(client)
    return batch


def _at(batch: bytes, timestamp_ms: int) -> bytes:
    header = msgspec.structs.replace(read_header(batch), base_timestamp=timestamp_ms, max_timestamp=timestamp_ms)
    return seal_batch(header, batch[HEADER_BYTES:])


def _check(client: RawClient) -> None:
    (answer,) = client.receive(ProduceResponse, PRODUCE_VERSION).responses[0].partition_responses
    assert answer.error_code == 0, answer.error_message
