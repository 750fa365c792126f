"""The blocking producer: `send` gives something whose `result()` waits. Sending goes on in a thread of its own.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = producer.send("orders", b"value", key=b"key")
        print(delivery.result().offset)

Any number of threads may use one producer. `with` and `close` send what is left; a producer that is still open when the
interpreter ends is flushed then, and what could not be delivered is said loudly.
"""

from __future__ import annotations

import atexit
import logging
import random
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from tidelog.client.aio.network import Network
from tidelog.client.aio.produce_engine import ProduceEngine
from tidelog.client.aio.producer import find_places
from tidelog.client.aio.transactions import TransactionDriver
from tidelog.client.blocking.loop_thread import LoopThread
from tidelog.client.core.intake import GivenHeaders, Intake, Room, dropped, dropped_batch, full, named
from tidelog.client.core.options import ProducerOptions, read_options
from tidelog.client.core.pending import Batch, Delivery, EncodedRecords, OnDelivery, lost_records
from tidelog.client.core.record import RecordMetadata
from tidelog.client.core.settings_types import ProducerSettings
from tidelog.client.core.table_columns import AUTO_HEADERS, AUTO_KEY, AUTO_TIMESTAMP, AUTO_VALUE, TableColumns
from tidelog.client.core.transaction import GroupMetadata, OffsetsToCommit, PreparedTransaction
from tidelog.client.errors import ClientClosed
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.arrow_send import TableDelivery

MILLISECONDS: Final = 1000.0
# How long an interpreter that ends waits for records that nobody flushed.
EXIT_FLUSH_S: Final = 30.0

log = logging.getLogger("tidelog.client")


class PendingDelivery(Delivery):
    """A record on its way. `result()` waits for its place, or raises the error that was its end."""

    __slots__ = ()

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Where the record is, once the broker has it; TimeoutError when that takes too long."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while not self.done():
            event = threading.Event()
            self._settling().on_settled.append(event.set)
            # Whoever settles the batch looks at the list after that: one of us sees the other.
            if self.done():
                break
            if not event.wait(None if end is None else max(0.0, end - time.monotonic())):
                raise TimeoutError(f"The record was not acknowledged within {timeout_s:g} s.")
        return self._outcome()


class Producer:
    """Writes records."""

    def __init__(self, config: Mapping[str, Any] | str | None = None, /, **settings: Unpack[ProducerSettings]) -> None:
        """Settings by Kafka's names, named (`bootstrap_servers=..., linger_ms=20`) or as a mapping of dotted names."""
        self._options = read_options(ProducerOptions, config, settings)
        self._room = threading.Condition(threading.Lock())
        self._lock = self._room
        self._thread = LoopThread("tidelog-producer")
        self._engine, self._transactions = self._thread.run(self._build())
        self._network = self._engine.network
        self._intake = Intake(self._options, self._engine.lines, random.randrange)
        self._lines = self._engine.lines
        self._closed = False
        _open.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> PendingDelivery:
        """Hand a record over. Waits while the topic is unknown or the buffer is full, never for the broker's answer.

        `result()` of what it gives waits for that. `on_delivery(metadata, error)` is called once, from the producer's
        thread: let it be short.
        """
        if self._closed:
            raise ClientClosed("The producer is closed.")
        intake = self._intake
        if self._options.transactional_id is not None:
            self._transactions.check_send()
        key_bytes, value_bytes, encoded_headers, size_bytes = intake.content(topic, key, value, headers)
        places = intake.places(topic, self._network.view) or self.partitions_for(topic)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        now = time.monotonic()
        with self._lock:
            place = intake.choose(key_bytes, size_bytes, places) if partition is None else named(places, partition)
            if self._lines.size_bytes + size_bytes > self._options.buffer_memory and not self._make_room(size_bytes):
                return self._let_go(place, timestamp_ms, on_delivery)
            batch, news = self._lines.append(place, key_bytes, value_bytes, encoded_headers, timestamp_ms, now)
            index = batch.count - 1
            if on_delivery is not None:
                batch.callbacks.append((index, timestamp_ms, on_delivery))
        if news:
            self._thread.call(self._engine.wake)
        return PendingDelivery(batch, index, timestamp_ms)

    def send_encoded(
        self, topic: str, partition: int, records: EncodedRecords, on_delivery: OnDelivery | None = None
    ) -> PendingDelivery:
        """Hand over a batch of records that are encoded already. Its delivery is that of the first record."""
        if self._closed:
            raise ClientClosed("The producer is closed.")
        self._transactions.check_send()
        place = named(self.partitions_for(topic), partition)
        with self._lock:
            if not self._make_room(len(records.body)):
                return self._let_go(place, records.base_timestamp_ms, on_delivery)
            batch = self._lines.append_encoded(place, records, time.monotonic())
            if on_delivery is not None:
                batch.callbacks.append((0, records.base_timestamp_ms, on_delivery))
        self._thread.call(self._engine.wake)
        return PendingDelivery(batch, 0, records.base_timestamp_ms)

    def send_table(
        self,
        topic: str,
        data: Any,
        *,
        key: str | None = AUTO_KEY,
        value: str | None = AUTO_VALUE,
        headers: str | None = AUTO_HEADERS,
        timestamp: str | None = AUTO_TIMESTAMP,
        partition: int | str | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> TableDelivery:
        """Hand over the rows of a table: whatever speaks Arrow, such as pyarrow, pandas, Polars, or many of them.

        Columns named "key", "value", "headers" and "timestamp" are taken if they are there; name others, or None.
        `partition` is a number, or the name of a column; without it keys decide, as in Java's client. Needs
        `tidelog[arrow]`. `on_delivery(metadata, error)` is called once for each batch, with its first record.
        """
        from tidelog.client.arrow_send import send_table

        columns = TableColumns(key, value, headers, timestamp, partition)
        return send_table(self, topic, data, columns, self._options.max_request_size, on_delivery)

    def partitions_for(self, topic: str) -> tuple[TopicPartition, ...]:
        """The partitions of a topic."""
        known = self._intake.places(topic, self._network.view)
        if known is not None:
            return known
        return self._thread.run(find_places(self._options, self._network, self._intake, topic))

    def flush(self, timeout_s: float | None = None) -> None:
        """Send all that was handed over and wait until each record is written or given up; TimeoutError if too long."""
        if not self._closed:
            self._thread.run(self._engine.flush(), timeout_s)

    def init_transactions(self, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take the transactional id over from whoever had it. Gives a transaction that was left prepared, if kept."""
        return self._thread.run(self._transactions.init(keep_prepared))

    def begin_transaction(self) -> None:
        """What is sent from now on belongs together."""
        self._transactions.begin()

    def send_offsets_to_transaction(self, offsets: OffsetsToCommit, group: GroupMetadata | str) -> None:
        """Let a group's offsets become valid together with the records of the transaction."""
        self._thread.run(self._transactions.send_offsets(offsets, group))

    def commit_transaction(self) -> None:
        """Make everything of the transaction readable at once. TransactionFailed when it has to be aborted instead."""
        self._thread.run(self._transactions.commit())

    def abort_transaction(self) -> None:
        """Let nothing of the transaction become readable."""
        self._thread.run(self._transactions.abort())

    def prepare_transaction(self) -> PreparedTransaction:
        """First phase of two: everything is written, and stays undecided until `complete_transaction` (KIP-939)."""
        return self._thread.run(self._transactions.prepare())

    def complete_transaction(self, prepared: PreparedTransaction) -> None:
        """Second phase: commit if this is the transaction that was prepared, abort if it is not."""
        self._thread.run(self._transactions.complete(prepared))

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin, and commit at the end; abort when the block raises."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            self._thread.run(self._transactions.abort_quietly())
            raise
        self.commit_transaction()

    def close(self, timeout_s: float | None = None) -> None:
        """Send what is left, wait for the answers, and end. What has no answer by then fails with ClientClosed."""
        if self._closed:
            return
        self._closed = True
        _open.discard(self)
        try:
            self._thread.run(self._engine.flush(), timeout_s)
        except TimeoutError:
            pass
        finally:
            self._thread.run(self._end())
            self._thread.stop()

    def _make_room(self, size_bytes: int) -> bool:
        """Whether there is room for a record, after a while if need be. Called, and left, with the lock held."""
        end = time.monotonic() + self._options.max_block_ms / MILLISECONDS
        while True:
            room, victims = self._intake.room(size_bytes)
            if victims:
                self._engine.drop(victims, dropped(self._options.buffer_memory))
                self._thread.call(self._engine.report)
            if room is not Room.WAIT:
                return room is Room.YES
            self._thread.call(self._engine.press)
            if not self._room.wait(max(0.0, end - time.monotonic())) and time.monotonic() >= end:
                raise full(self._options.buffer_memory)

    def _let_go(self, place: TopicPartition, timestamp_ms: int, on_delivery: OnDelivery | None) -> PendingDelivery:
        batch = dropped_batch(place, timestamp_ms, self._options.buffer_memory)
        if on_delivery is not None:
            self._thread.call(lambda: _tell(batch, timestamp_ms, on_delivery))
        return PendingDelivery(batch, 0, timestamp_ms)

    def _notify(self) -> None:
        with self._room:
            self._room.notify_all()

    async def _build(self) -> tuple[ProduceEngine, TransactionDriver]:
        network = Network(self._options)
        transactions = TransactionDriver(self._options, network)
        engine = ProduceEngine(self._options, network, self._lock, self._notify, transactions.gate)
        transactions.attach(engine)
        return engine, transactions

    async def _end(self) -> None:
        await self._engine.close()
        await self._network.close()


def _tell(batch: Batch, timestamp_ms: int, on_delivery: OnDelivery) -> None:
    batch.callbacks.append((0, timestamp_ms, on_delivery))
    batch.tell(lambda error: log.error("A delivery callback raised an exception.", exc_info=error))


_open: weakref.WeakSet[Producer] = weakref.WeakSet()


@atexit.register
def _flush_at_exit() -> None:
    """Nothing that was handed over is lost because a program ended without a close."""
    for producer in list(_open):
        with producer._lock:
            batches = list(producer._lines.all())
        producer.close(EXIT_FLUSH_S)
        lost = sum(map(lost_records, batches))
        if lost:
            log.error(
                "%d records were not delivered to %s before the program ended.",
                lost,
                producer._options.bootstrap_servers,
            )
