"""The consumer for asyncio: `async for record in consumer`, or `await consumer.poll()` for many at a time.

    async with AsyncConsumer(bootstrap_servers="localhost:9092", group_id="app") as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            ...

Heartbeats go on whatever the program does meanwhile, as long as it does not block the loop.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, Self, Unpack

from tidelog.client.aio.consumer_machine import ConsumerMachine, OffsetsToCommit
from tidelog.client.core.chunk import FetchedChunk
from tidelog.client.core.described import EARLIEST, LATEST, OffsetAt
from tidelog.client.core.groups import CommittedOffset
from tidelog.client.core.member import Release
from tidelog.client.core.options import ConsumerOptions, read_options
from tidelog.client.core.outlet import Outlet
from tidelog.client.core.record import ConsumerRecord
from tidelog.client.core.serializers import from_bytes
from tidelog.client.core.settings_types import ConsumerSettings
from tidelog.client.core.subscription import RebalanceListener, subscription_of
from tidelog.client.core.transaction import GroupMetadata
from tidelog.client.errors import ClientClosed
from tidelog.model.ids import Offset, TopicPartition

MILLISECONDS: Final = 1000.0
POLL_S: Final = 1.0
ITERATE_S: Final = 3600.0
# How often `async for` lets the loop do other things, while records are at hand.
ALIVE_S: Final = 0.1


class AsyncConsumer:
    """Reads records in an asyncio program."""

    def __init__(self, config: Mapping[str, Any] | str | None = None, /, **settings: Unpack[ConsumerSettings]) -> None:
        """Settings by Kafka's names, named (`bootstrap_servers=..., group_id=...`) or as a mapping of dotted names."""
        self._options = read_options(ConsumerOptions, config, settings)
        self._key_from = from_bytes(self._options.key_deserializer)
        self._value_from = from_bytes(self._options.value_deserializer)
        self._listener: RebalanceListener | None = None
        self._started: tuple[ConsumerMachine, Outlet] | None = None
        self._news = asyncio.Event()
        self._commit_at = 0.0
        self._alive_at = 0.0
        self._closed = False

    async def __aenter__(self) -> Self:
        self._machine()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an exception nobody knows what of the last records was dealt with: they are read again.
        await self.close(commit=kind is None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while True:
            # The short way while records are at hand and nothing is due.
            now = asyncio.get_running_loop().time()
            if self._started is not None and not self._closed and now < self._alive_at:
                machine, outlet = self._started
                record = None if machine.has_news else outlet.one()
                if record is not None:
                    return record
            self._alive_at = now + ALIVE_S
            # A program that awaits nothing else would keep fetches and heartbeats from going on.
            await asyncio.sleep(0)
            records = await self.poll(ITERATE_S, 1)
            if records:
                return records[0]

    def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics as a member of the group, together with its other members."""
        subscription = subscription_of(topics, pattern, self._options.exclude_internal_topics)
        self._listener = listener
        self._machine().subscribe(subscription)

    async def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        await self._machine().unsubscribe()

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without being a member of a group."""
        await self._machine().assign(partitions)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return set(self._machine().engine.reading.places)

    def subscription(self) -> set[str]:
        """The topics that were subscribed to; with a pattern, those that match it now."""
        machine = self._machine()
        return set() if machine.subscription is None else set(machine.subscription.topics_in(machine.network.view))

    async def poll(self, timeout_s: float = POLL_S, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records as soon as there are any, at most `max_poll_records`; none when the time is up."""
        outlet = self._outlet()
        count = self._options.max_poll_records if max_records is None else max_records
        end = asyncio.get_running_loop().time() + timeout_s
        while True:
            await self._serve()
            records = outlet.records(count)
            if records:
                return records
            if not await self._wait(end):
                return []

    async def poll_chunk(self, timeout_s: float = POLL_S) -> FetchedChunk | None:
        """What a fetch brought for one partition, undecoded; `went_to` moves the position behind it."""
        outlet = self._outlet()
        end = asyncio.get_running_loop().time() + timeout_s
        while True:
            await self._serve()
            chunk = outlet.chunk()
            if chunk is not None:
                return chunk
            if not await self._wait(end):
                return None

    def went_to(self, offset: Offset) -> None:
        """The chunk that `poll_chunk` gave last was read up to here."""
        self._outlet().went_to(offset)

    async def poll_arrow(self, timeout_s: float = POLL_S, columns: Sequence[str] | None = None) -> Any:
        """Rows as soon as there are any, of one partition, as a pyarrow.RecordBatch; without rows when the time is up.

        `columns`: some of topic, partition, offset, timestamp, timestamp_type, key, value, headers. Needs
        `tidelog[arrow]`; deserializers are for records alone.
        """
        from tidelog.client.arrow_poll import poll_arrow_async

        self._machine().engine.reading.partition_bytes_max = self._options.table_fetch_bytes
        return await poll_arrow_async(self, timeout_s, columns, self._options.check_crcs)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from an offset."""
        machine = self._machine()
        machine.engine.reading.place(partition).go_to(Offset(offset))
        machine.engine.wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the oldest record of these partitions, or of all."""
        self._reset(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the newest record of these partitions, or of all."""
        self._reset(partitions, LATEST)

    def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Go to the first record at or after a time; to the end where there is none."""
        self._reset(partitions, timestamp_ms)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand nothing out of these until they are resumed."""
        for partition in partitions:
            self._machine().engine.reading.place(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these."""
        for partition in partitions:
            self._machine().engine.reading.place(partition).paused = False
        self._machine().engine.wake()

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {place.partition for place in self._machine().engine.reading.places.values() if place.paused}

    async def position(self, partition: TopicPartition) -> Offset:
        """The offset of the next record."""
        return await self._machine().position(partition)

    def high_watermark(self, partition: TopicPartition) -> Offset | None:
        """Where the partition ended when it was last read."""
        return self._machine().engine.reading.place(partition).high_watermark

    async def commit(self, offsets: OffsetsToCommit | None = None) -> None:
        """Let the group remember offsets, or how far everything was read."""
        await self._machine().commit(offsets)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, CommittedOffset]:
        """What the group remembers; partitions of which it remembers nothing are left out."""
        return await self._machine().committed(partitions)

    async def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, Offset]:
        """The offset of the oldest record."""
        return await self._offsets(partitions, EARLIEST)

    async def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, Offset]:
        """The offset behind the newest record."""
        return await self._offsets(partitions, LATEST)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAt | None]:
        """The first record at or after a time in milliseconds; None where there is none."""
        found = await self._machine().offsets_at(timestamps)
        return {place: None if answer.offset < 0 else answer for place, answer in found.items()}

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Every partition of a topic."""
        return await self._machine().partitions_for(topic)

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for `send_offsets_to_transaction`."""
        return self._machine().group_metadata()

    async def close(self, commit: bool = True) -> None:
        """Commit if so is the setting, leave the group, end."""
        if self._closed:
            return
        self._closed = True
        if self._started is not None:
            await self._started[0].close(commit)

    async def _serve(self) -> None:
        """Whatever is due before records are handed out: news of the group, failures, commits."""
        machine = self._machine()
        machine.polled()
        while (change := machine.next_change()) is not None:
            if isinstance(change, Release):
                if machine.commits_by_itself and not change.lost:
                    await machine.commit_quietly()
                await self._tell("on_partitions_lost" if change.lost else "on_partitions_revoked", change.partitions)
                machine.release(change)
            else:
                machine.adopt(change)
                # Also when nothing was added, as the Java client does: that the rebalance is over is news, too.
                await self._tell("on_partitions_assigned", change.added)
                machine.polled()
        if machine.engine.failure is not None:
            failure, machine.engine.failure = machine.engine.failure, None
            raise failure
        now = asyncio.get_running_loop().time()
        if machine.commits_by_itself and now >= self._commit_at:
            self._commit_at = now + self._options.auto_commit_interval_ms / MILLISECONDS
            machine.commit_soon(machine.engine.reading.to_commit())

    async def _tell(self, method: str, partitions: Iterable[TopicPartition]) -> None:
        if self._listener is not None:
            result = getattr(self._listener, method)(sorted(partitions))
            if inspect.isawaitable(result):
                await result

    async def _wait(self, end: float) -> bool:
        """Wait for news; False when the time is up."""
        loop = asyncio.get_running_loop()
        if loop.time() >= end:
            return False
        self._news.clear()
        machine = self._machine()
        machine.engine.wake()
        if machine.engine.reading.has_some() or machine.next_change() is not None:
            return True
        try:
            async with asyncio.timeout_at(min(end, loop.time() + POLL_S)):
                await self._news.wait()
        except TimeoutError:
            pass
        return True

    def _reset(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> None:
        machine = self._machine()
        reading = machine.engine.reading
        reading.reset(list(partitions) or list(reading.places), timestamp_ms)
        machine.engine.wake()

    async def _offsets(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, Offset]:
        found = await self._machine().offsets_at(dict.fromkeys(partitions, timestamp_ms))
        return {place: answer.offset for place, answer in found.items()}

    def _machine(self) -> ConsumerMachine:
        if self._closed:
            raise ClientClosed("The consumer is closed.")
        if self._started is None:
            lock = nullcontext()
            machine = ConsumerMachine(self._options, lock, self._news.set)
            engine = machine.engine
            outlet = Outlet(
                engine.reading, lock, self._key_from, self._value_from, self._options.check_crcs, engine.wake
            )
            self._started = machine, outlet
        return self._started[0]

    def _outlet(self) -> Outlet:
        self._machine()
        assert self._started is not None
        return self._started[1]
