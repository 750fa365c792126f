"""Topics for Spark to read, filled from one table that is sent again and again, and a producer that keeps a pace."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.client.admin import Admin, accepted
from tidelog.client.blocking.producer import Producer
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.model.ids import TopicName

PARTITIONS: Final = 4
TABLE_BYTES: Final = 8_000_000
TICK_SECONDS: Final = 0.01


def create(servers: str, *names: str) -> None:
    with Cluster(servers) as cluster:
        for answer in Admin(cluster).create_topics([NewTopic(TopicName(name), PARTITIONS) for name in names]).values():
            accepted(answer)


def fill(servers: str, topic: str, records: int, record_bytes: int) -> None:
    """Records with keys that differ and values that are no text one could guess."""
    create(servers, topic)
    rows = min(records, TABLE_BYTES // record_bytes)
    value = os.urandom(record_bytes // 2).hex().encode()
    table = pa.table(
        {
            "key": pa.array([b"%d" % number for number in range(rows)], pa.binary()),
            "value": pa.array([value] * rows, pa.binary()),
        }
    )
    with Producer(bootstrap_servers=servers) as producer:
        for first in range(0, records, rows):
            producer.send_table(topic, table.slice(0, min(rows, records - first))).result()


@contextmanager
def paced(servers: str, topic: str, records_per_second: int, record_bytes: int) -> Iterator[None]:
    """Single records at a steady pace, as long as the block lasts."""
    ended = threading.Event()
    value = b"v" * record_bytes

    def send() -> None:
        sent = 0
        begun = time.monotonic()
        with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
            while not ended.wait(TICK_SECONDS):
                due = int((time.monotonic() - begun) * records_per_second)
                for number in range(sent, due):
                    producer.send(topic, value, b"%d" % number)
                sent = due

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
