"""The blocking consumer: `for record in consumer`, or `poll` for many. Fetches and heartbeats go on in a thread.

    with Consumer(bootstrap_servers="localhost:9092", group_id="app") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer:
            ...

For one thread at a time; a listener is called inside `poll`.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar, Unpack

from tidelog.client.aio.consumer_machine import ConsumerMachine, OffsetsToCommit
from tidelog.client.blocking.loop_thread import LoopThread
from tidelog.client.core.chunk import FetchedChunk
from tidelog.client.core.described import EARLIEST, LATEST, OffsetAt
from tidelog.client.core.groups import CommittedOffset
from tidelog.client.core.member import Release
from tidelog.client.core.options import ConsumerOptions, read_options
from tidelog.client.core.outlet import Outlet
from tidelog.client.core.record import ConsumerRecord
from tidelog.client.core.serializers import from_bytes
from tidelog.client.core.settings_types import ConsumerSettings
from tidelog.client.core.subscription import RebalanceListener, Subscription, subscription_of
from tidelog.client.core.transaction import GroupMetadata
from tidelog.client.errors import ClientClosed
from tidelog.model.ids import Offset, TopicPartition

MILLISECONDS: Final = 1000.0
POLL_S: Final = 1.0
# How often the group is told that the program still polls, while records are at hand.
ALIVE_S: Final = 0.1

T = TypeVar("T")


class Consumer:
    """Reads records."""

    def __init__(self, config: Mapping[str, Any] | str | None = None, /, **settings: Unpack[ConsumerSettings]) -> None:
        """Settings by Kafka's names, named (`bootstrap_servers=..., group_id=...`) or as a mapping of dotted names."""
        self._options = read_options(ConsumerOptions, config, settings)
        key_from = from_bytes(self._options.key_deserializer)
        value_from = from_bytes(self._options.value_deserializer)
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._thread = LoopThread("tidelog-consumer")
        self._machine = self._thread.run(self._build())
        self._reading = self._machine.engine.reading
        wake = partial(self._thread.call, self._machine.engine.wake)
        self._outlet = Outlet(self._reading, self._lock, key_from, value_from, self._options.check_crcs, wake)
        self._listener: RebalanceListener | None = None
        self._alive_at = 0.0
        self._commit_at = time.monotonic() + self._options.auto_commit_interval_ms / MILLISECONDS
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After an exception nobody knows what of the last records was dealt with: they are read again.
        self.close(commit=kind is None)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        while True:
            # The short way while records are at hand and nothing is due: no list, no look at the group.
            if not self._closed and time.monotonic() < self._alive_at and not self._machine.has_news:
                record = self._outlet.one()
                if record is not None:
                    return record
            records = self.poll(POLL_S, 1)
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
        self._alive_at = 0.0
        self._run(self._subscribe(subscription))

    def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        self._run(self._machine.unsubscribe())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without being a member of a group."""
        self._run(self._machine.assign(list(partitions)))

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        with self._lock:
            return set(self._reading.places)

    def subscription(self) -> set[str]:
        """The topics that were subscribed to; with a pattern, those that match it now."""
        subscribed = self._machine.subscription
        return set() if subscribed is None else set(subscribed.topics_in(self._machine.network.view))

    def poll(self, timeout_s: float = POLL_S, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records as soon as there are any, at most `max_poll_records`; none when the time is up."""
        count = self._options.max_poll_records if max_records is None else max_records
        end = time.monotonic() + timeout_s
        while True:
            self._serve()
            records = self._outlet.records(count)
            if records:
                return records
            if not self._wait(end):
                return []

    def poll_chunk(self, timeout_s: float = POLL_S) -> FetchedChunk | None:
        """What a fetch brought for one partition, undecoded; `went_to` moves the position behind it."""
        end = time.monotonic() + timeout_s
        while True:
            self._serve()
            chunk = self._outlet.chunk()
            if chunk is not None:
                return chunk
            if not self._wait(end):
                return None

    def went_to(self, offset: Offset) -> None:
        """The chunk that `poll_chunk` gave last was read up to here."""
        self._outlet.went_to(offset)

    def poll_arrow(self, timeout_s: float = POLL_S, columns: Sequence[str] | None = None) -> Any:
        """Rows as soon as there are any, of one partition, as a pyarrow.RecordBatch; without rows when the time is up.

        `columns`: some of topic, partition, offset, timestamp, timestamp_type, key, value, headers. Needs
        `tidelog[arrow]`; deserializers are for records alone.
        """
        from tidelog.client.arrow_poll import poll_arrow

        self._reading.partition_bytes_max = self._options.table_fetch_bytes
        return poll_arrow(self, timeout_s, columns, self._options.check_crcs)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from an offset."""
        with self._lock:
            self._reading.place(partition).go_to(Offset(offset))
        self._thread.call(self._machine.engine.wake)

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
        with self._lock:
            for partition in partitions:
                self._reading.place(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these."""
        with self._lock:
            for partition in partitions:
                self._reading.place(partition).paused = False
        self._thread.call(self._machine.engine.wake)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        with self._lock:
            return {place.partition for place in self._reading.places.values() if place.paused}

    def position(self, partition: TopicPartition) -> Offset:
        """The offset of the next record."""
        with self._lock:
            known = self._reading.place(partition).position
        return self._run(self._machine.position(partition)) if known is None else known

    def high_watermark(self, partition: TopicPartition) -> Offset | None:
        """Where the partition ended when it was last read."""
        with self._lock:
            return self._reading.place(partition).high_watermark

    def commit(self, offsets: OffsetsToCommit | None = None) -> None:
        """Let the group remember offsets, or how far everything was read."""
        self._run(self._machine.commit(offsets))

    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, CommittedOffset]:
        """What the group remembers; partitions of which it remembers nothing are left out."""
        return self._run(self._machine.committed(partitions))

    def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, Offset]:
        """The offset of the oldest record."""
        return self._offsets(partitions, EARLIEST)

    def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, Offset]:
        """The offset behind the newest record."""
        return self._offsets(partitions, LATEST)

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt | None]:
        """The first record at or after a time in milliseconds; None where there is none."""
        found = self._run(self._machine.offsets_at(timestamps))
        return {place: None if answer.offset < 0 else answer for place, answer in found.items()}

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Every partition of a topic."""
        return self._run(self._machine.partitions_for(topic))

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for `send_offsets_to_transaction`."""
        return self._machine.group_metadata()

    def close(self, commit: bool = True) -> None:
        """Commit if so is the setting, leave the group, end."""
        if self._closed:
            return
        self._closed = True
        try:
            self._thread.run(self._machine.close(commit))
        finally:
            self._thread.stop()

    def _serve(self) -> None:
        """Whatever is due before records are handed out: news of the group, failures, commits."""
        if self._closed:
            raise ClientClosed("The consumer is closed.")
        machine = self._machine
        now = time.monotonic()
        if now >= self._alive_at:
            self._alive_at = now + ALIVE_S
            self._thread.call(self._alive)
        while (change := machine.next_change()) is not None:
            if isinstance(change, Release):
                if machine.commits_by_itself and not change.lost:
                    self._thread.run(machine.commit_quietly())
                self._tell("on_partitions_lost" if change.lost else "on_partitions_revoked", change.partitions)
                self._thread.run(self._do(partial(machine.release, change)))
            else:
                self._thread.run(self._do(partial(machine.adopt, change)))
                # Also when nothing was added, as the Java client does: that the rebalance is over is news, too.
                self._tell("on_partitions_assigned", change.added)
                self._thread.call(self._alive)
        if machine.engine.failure is not None:
            failure, machine.engine.failure = machine.engine.failure, None
            raise failure
        if machine.commits_by_itself and now >= self._commit_at:
            self._commit_at = now + self._options.auto_commit_interval_ms / MILLISECONDS
            with self._lock:
                positions = self._reading.to_commit()
            self._thread.call(partial(machine.commit_soon, positions))

    def _alive(self) -> None:
        self._machine.polled()
        self._machine.engine.wake()

    def _tell(self, method: str, partitions: Iterable[TopicPartition]) -> None:
        if self._listener is not None:
            getattr(self._listener, method)(sorted(partitions))

    def _wait(self, end: float) -> bool:
        """Wait for news; False when the time is up."""
        now = time.monotonic()
        if now >= end:
            return False
        self._news.clear()
        self._alive_at = min(self._alive_at, now)
        with self._lock:
            at_hand = self._reading.has_some()
        if at_hand or self._machine.next_change() is not None or self._machine.engine.failure is not None:
            return True
        self._thread.call(self._alive)
        self._news.wait(min(end - now, POLL_S))
        return True

    def _reset(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> None:
        with self._lock:
            self._reading.reset(list(partitions) or list(self._reading.places), timestamp_ms)
        self._thread.call(self._machine.engine.wake)

    def _offsets(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, Offset]:
        found = self._run(self._machine.offsets_at(dict.fromkeys(partitions, timestamp_ms)))
        return {place: answer.offset for place, answer in found.items()}

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise ClientClosed("The consumer is closed.")
        return self._thread.run(work)

    async def _build(self) -> ConsumerMachine:
        return ConsumerMachine(self._options, self._lock, self._news.set)

    async def _subscribe(self, subscription: Subscription) -> None:
        self._machine.subscribe(subscription)

    async def _do(self, act: Callable[[], None]) -> None:
        act()
