"""The producer for asyncio: `await producer.send(...)` hands a record over; await what it gives for its place.

    async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
        delivery = await producer.send("orders", b"value", key=b"key")
        metadata = await delivery

Belongs to the event loop in which it is started.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from tidelog.client.aio.network import Network
from tidelog.client.aio.produce_engine import ProduceEngine
from tidelog.client.aio.transactions import TransactionDriver
from tidelog.client.core.intake import GivenHeaders, Intake, Room, dropped, dropped_batch, full, named
from tidelog.client.core.options import ProducerOptions, read_options
from tidelog.client.core.pending import Delivery, EncodedRecords, OnDelivery
from tidelog.client.core.record import RecordMetadata
from tidelog.client.core.settings_types import ProducerSettings
from tidelog.client.core.table_columns import AUTO_HEADERS, AUTO_KEY, AUTO_TIMESTAMP, AUTO_VALUE, TableColumns
from tidelog.client.core.transaction import GroupMetadata, OffsetsToCommit, PreparedTransaction
from tidelog.client.errors import ClientClosed, ClientError, Rejected
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.arrow_send import AsyncTableDelivery

MILLISECONDS: Final = 1000.0


class AsyncDelivery(Delivery):
    """A record on its way. Await it for the record's place, or the error that was its end."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        while not self.done():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settling().on_settled.append(partial(_resolve, future))
            yield from future
        return self._outcome()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class AsyncProducer:
    """Writes records from an asyncio program."""

    def __init__(self, config: Mapping[str, Any] | str | None = None, /, **settings: Unpack[ProducerSettings]) -> None:
        """Settings by Kafka's names, named (`bootstrap_servers=..., linger_ms=20`) or as a mapping of dotted names."""
        self._options = read_options(ProducerOptions, config, settings)
        self._running: _Running | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Make ready in the running loop; `async with` and the first `send` do it, too."""
        self._run()

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: GivenHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> AsyncDelivery:
        """Hand a record over. Waits while the topic is unknown or the buffer is full, never for the broker's answer.

        Await what it gives for that. `on_delivery(metadata, error)` is called once.
        """
        run = self._run()
        run.transactions.check_send()
        key_bytes, value_bytes, encoded_headers, size_bytes = run.intake.content(topic, key, value, headers)
        places = run.intake.places(topic, run.network.view) or await run.await_places(topic)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        place = run.intake.choose(key_bytes, size_bytes, places) if partition is None else named(places, partition)
        if not await run.await_room(size_bytes):
            lost = dropped_batch(place, timestamp_ms, self._options.buffer_memory)
            if on_delivery is not None:
                on_delivery(None, dropped(self._options.buffer_memory))
            return AsyncDelivery(lost, 0, timestamp_ms)
        now = run.loop.time()
        batch, news = run.engine.lines.append(place, key_bytes, value_bytes, encoded_headers, timestamp_ms, now)
        index = batch.count - 1
        if on_delivery is not None:
            batch.callbacks.append((index, timestamp_ms, on_delivery))
        if news:
            run.engine.wake()
        return AsyncDelivery(batch, index, timestamp_ms)

    async def send_and_wait(self, topic: str, value: Any = None, key: Any = None, **more: Any) -> RecordMetadata:
        """Send a record and wait until it is written."""
        return await (await self.send(topic, value, key, **more))

    async def send_encoded(
        self, topic: str, partition: int, records: EncodedRecords, on_delivery: OnDelivery | None = None
    ) -> AsyncDelivery:
        """Hand over a batch of records that are encoded already. Its delivery is that of the first record."""
        run = self._run()
        run.transactions.check_send()
        places = run.intake.places(topic, run.network.view) or await run.await_places(topic)
        place = named(places, partition)
        if not await run.await_room(len(records.body)):
            return AsyncDelivery(
                dropped_batch(place, records.base_timestamp_ms, self._options.buffer_memory),
                0,
                records.base_timestamp_ms,
            )
        batch = run.engine.lines.append_encoded(place, records, run.loop.time())
        if on_delivery is not None:
            batch.callbacks.append((0, records.base_timestamp_ms, on_delivery))
        run.engine.wake()
        return AsyncDelivery(batch, 0, records.base_timestamp_ms)

    async def send_table(
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
    ) -> AsyncTableDelivery:
        """Hand over the rows of a table: whatever speaks Arrow, such as pyarrow, pandas, Polars, or many of them.

        Columns named "key", "value", "headers" and "timestamp" are taken if they are there; name others, or None.
        `partition` is a number, or the name of a column; without it keys decide, as in Java's client. Needs
        `tidelog[arrow]`. `on_delivery(metadata, error)` is called once for each batch, with its first record.
        """
        from tidelog.client.arrow_send import send_table_async

        columns = TableColumns(key, value, headers, timestamp, partition)
        return await send_table_async(self, topic, data, columns, self._options.max_request_size, on_delivery)

    async def partitions_for(self, topic: str) -> tuple[TopicPartition, ...]:
        """The partitions of a topic."""
        run = self._run()
        return run.intake.places(topic, run.network.view) or await run.await_places(topic)

    async def flush(self) -> None:
        """Send all that was handed over and wait until each record is written or given up."""
        if self._running is not None:
            await self._running.engine.flush()

    async def init_transactions(self, keep_prepared: bool = False) -> PreparedTransaction | None:
        """Take the transactional id over from whoever had it. Gives a transaction that was left prepared, if kept."""
        return await self._run().transactions.init(keep_prepared)

    def begin_transaction(self) -> None:
        """What is sent from now on belongs together."""
        self._run().transactions.begin()

    async def send_offsets_to_transaction(self, offsets: OffsetsToCommit, group: GroupMetadata | str) -> None:
        """Let a group's offsets become valid together with the records of the transaction."""
        await self._run().transactions.send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Make everything of the transaction readable at once. TransactionFailed when it has to be aborted instead."""
        await self._run().transactions.commit()

    async def abort_transaction(self) -> None:
        """Let nothing of the transaction become readable."""
        await self._run().transactions.abort()

    async def prepare_transaction(self) -> PreparedTransaction:
        """First phase of two: everything is written, and stays undecided until `complete_transaction` (KIP-939)."""
        return await self._run().transactions.prepare()

    async def complete_transaction(self, prepared: PreparedTransaction) -> None:
        """Second phase: commit if this is the transaction that was prepared, abort if it is not."""
        await self._run().transactions.complete(prepared)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begin, and commit at the end; abort when the block raises."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            await self._run().transactions.abort_quietly()
            raise
        await self.commit_transaction()

    async def close(self, timeout_s: float | None = None) -> None:
        """Send what is left, wait for the answers, and end. What has no answer by then fails with ClientClosed."""
        if self._closed:
            return
        run, self._running, self._closed = self._running, None, True
        if run is None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await run.engine.flush()
        except TimeoutError:
            pass
        finally:
            await run.engine.close()
            await run.network.close()

    def _run(self) -> _Running:
        if self._running is None:
            if self._closed:
                raise ClientClosed("The producer is closed.")
            self._running = _Running(self._options)
        return self._running


class _Running:
    """What a producer is made of while its loop runs."""

    def __init__(self, options: ProducerOptions) -> None:
        self.loop = asyncio.get_running_loop()
        self.network = Network(options)
        self.transactions = TransactionDriver(options, self.network)
        self.engine = ProduceEngine(options, self.network, nullcontext(), self._on_room, self.transactions.gate)
        self.transactions.attach(self.engine)
        self.intake = Intake(options, self.engine.lines, random.randrange)
        self._options = options
        self._waiting: list[asyncio.Future[None]] = []

    async def await_places(self, topic: str) -> tuple[TopicPartition, ...]:
        return await find_places(self._options, self.network, self.intake, topic)

    async def await_room(self, size_bytes: int) -> bool:
        """Whether a record may come in, after a while if need be; BufferFull when it takes too long."""
        end = None
        while True:
            room, victims = self.intake.room(size_bytes)
            if victims:
                self.engine.drop(victims, dropped(self._options.buffer_memory))
                self.engine.report()
            if room is not Room.WAIT:
                return room is Room.YES
            end = self.loop.time() + self._options.max_block_ms / MILLISECONDS if end is None else end
            waiter: asyncio.Future[None] = self.loop.create_future()
            self._waiting.append(waiter)
            self.engine.press()
            try:
                async with asyncio.timeout_at(end):
                    await waiter
            except TimeoutError:
                raise full(self._options.buffer_memory) from None

    def _on_room(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            _resolve(waiter)


async def find_places(
    options: ProducerOptions, network: Network, intake: Intake, topic: str
) -> tuple[TopicPartition, ...]:
    """The partitions of a topic, waited for at most `max_block_ms`: it may be about to be created."""

    async def look() -> tuple[TopicPartition, ...]:
        await network.topic(TopicName(topic), create=options.allow_auto_create_topics)
        places = intake.places(topic, network.view)
        if places is None:
            raise Rejected(ErrorCode.LEADER_NOT_AVAILABLE, f"Topic '{topic}' has no partitions yet.")
        return places

    try:
        return await network.retry(look, options.max_block_ms / MILLISECONDS)
    except ClientError:
        network.view = network.view.without([TopicName(topic)])
        raise
