"""Tables on their way into topics: handed to a producer batch by batch, and waited for as one.

`Producer.send_table` and `AsyncProducer.send_table` delegate to it, so that a producer that sends no tables never
loads Arrow.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.client.arrow_write import OVERHEAD_BYTES, batches_of
from tidelog.client.core.pending import OnDelivery
from tidelog.client.core.table_columns import TableColumns
from tidelog.wire.columns.encode import BATCH_BYTES

if TYPE_CHECKING:
    from tidelog.client.aio.producer import AsyncDelivery, AsyncProducer
    from tidelog.client.blocking.producer import PendingDelivery, Producer


class TableWritten(NamedTuple):
    """What became of a table: how many rows were written, and the offset of the first in each partition."""

    records: int
    first_offsets: dict[int, int]


class TableDelivery:
    """A table on its way. `result()` waits until every row is written, or raises why one was not."""

    __slots__ = ("_counts", "_deliveries")

    def __init__(self) -> None:
        self._deliveries: list[PendingDelivery] = []
        self._counts: list[int] = []

    def add(self, delivery: PendingDelivery, records: int) -> None:
        self._deliveries.append(delivery)
        self._counts.append(records)

    def done(self) -> bool:
        """Whether it is known how every row ended."""
        return all(delivery.done() for delivery in self._deliveries)

    def result(self, timeout_s: float | None = None) -> TableWritten:
        """Where the rows are; TimeoutError when that takes too long."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        first_offsets: dict[int, int] = {}
        for delivery in self._deliveries:
            written = delivery.result(None if end is None else max(0.0, end - time.monotonic()))
            first_offsets.setdefault(written.partition, written.offset)
        return TableWritten(sum(self._counts), first_offsets)


class AsyncTableDelivery:
    """The same for asyncio: await it."""

    __slots__ = ("_counts", "_deliveries")

    def __init__(self) -> None:
        self._deliveries: list[AsyncDelivery] = []
        self._counts: list[int] = []

    def add(self, delivery: AsyncDelivery, records: int) -> None:
        self._deliveries.append(delivery)
        self._counts.append(records)

    def done(self) -> bool:
        """Whether it is known how every row ended."""
        return all(delivery.done() for delivery in self._deliveries)

    def __await__(self) -> Generator[Any, None, TableWritten]:
        first_offsets: dict[int, int] = {}
        for delivery in self._deliveries:
            written = yield from delivery.__await__()
            first_offsets.setdefault(written.partition, written.offset)
        return TableWritten(sum(self._counts), first_offsets)


def send_table(
    producer: Producer,
    topic: str,
    data: Any,
    columns: TableColumns,
    request_bytes_max: int,
    on_delivery: OnDelivery | None,
) -> TableDelivery:
    """Hand a table over to a producer, batch by batch, at the pace of its buffer."""
    sent = TableDelivery()
    partitions = len(producer.partitions_for(topic))
    batch_bytes = min(BATCH_BYTES, request_bytes_max - OVERHEAD_BYTES)
    for partition, records in batches_of(data, columns, partitions, batch_bytes, random.randrange(partitions)):
        sent.add(producer.send_encoded(topic, partition, records, on_delivery), records.count)
    return sent


async def send_table_async(
    producer: AsyncProducer,
    topic: str,
    data: Any,
    columns: TableColumns,
    request_bytes_max: int,
    on_delivery: OnDelivery | None,
) -> AsyncTableDelivery:
    """The same for asyncio."""
    sent = AsyncTableDelivery()
    partitions = len(await producer.partitions_for(topic))
    batch_bytes = min(BATCH_BYTES, request_bytes_max - OVERHEAD_BYTES)
    for partition, records in batches_of(data, columns, partitions, batch_bytes, random.randrange(partitions)):
        sent.add(await producer.send_encoded(topic, partition, records, on_delivery), records.count)
    return sent
