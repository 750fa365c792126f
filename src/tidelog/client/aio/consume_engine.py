"""Does what the consumer's core decides: finds out where to begin, fetches ahead, follows leaders.

Runs in one event loop; only `reading` is shared with another thread, under `lock`. Where a group has stopped is asked
through `committed`, which a consumer without a group does not have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from tidelog.client.aio.epoch_checks import EpochChecks
from tidelog.client.aio.network import Lane, Network
from tidelog.client.core.chunk import FetchedChunk
from tidelog.client.core.described import LATEST, OffsetAt
from tidelog.client.core.fetch_session import FetchSession, Limits, Wanted
from tidelog.client.core.groups import CommittedOffset
from tidelog.client.core.leader_hints import follow_hints, hints_for_reader
from tidelog.client.core.metadata import Node
from tidelog.client.core.offsets import list_offsets, listed_offsets
from tidelog.client.core.options import ConsumerOptions
from tidelog.client.core.reading import Reading, by_leader, missing_position
from tidelog.client.core.record_reader import end_of
from tidelog.client.errors import ClientError, Rejected, code_of
from tidelog.model.errors import RETRIABLE, ErrorCode
from tidelog.model.ids import NO_EPOCH, NO_NODE, LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from tidelog.wire.messages.list_offsets import ListOffsetsResponse

MILLISECONDS: Final = 1000.0
# An answer is waited for a little longer than the broker may take.
GRACE_S: Final = 1.0

Committed = Callable[[list[TopicPartition]], Awaitable[Mapping[TopicPartition, CommittedOffset]]]

log = logging.getLogger("tidelog.client")


class ConsumeEngine:
    """The consumer's side of the network."""

    def __init__(
        self,
        options: ConsumerOptions,
        network: Network,
        lock: AbstractContextManager[Any],
        on_news: Callable[[], None],
    ) -> None:
        self.network = network
        self.reading = Reading(options.max_partition_fetch_bytes, options.fetch_max_bytes)
        # Where the group has stopped; None without a group.
        self.committed: Committed | None = None
        # Whether the program asks for records of what it was assigned: before that it may still seek.
        self.asked = False
        # What the next poll raises.
        self.failure: ClientError | None = None
        self._options = options
        self._lock = lock
        self._on_news = on_news
        self._limits = Limits(
            options.fetch_max_wait_ms,
            options.fetch_min_bytes,
            options.fetch_max_bytes,
            options.read_committed,
            options.client_rack,
        )
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[NodeId, FetchSession] = {}
        self._fetching: dict[NodeId, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._refreshing: asyncio.Task[None] | None = None
        self._stale: set[TopicName] = set()
        self._turn_due: asyncio.Handle | None = None
        self._closed = False
        self._checks = EpochChecks(self, lock, options)

    def wake(self) -> None:
        """Something changed: take a turn soon."""
        if self._turn_due is None and not self._closed:
            self._turn_due = self._loop.call_soon(self._turn)

    def fail(self, error: ClientError) -> None:
        """Let the next poll raise this."""
        self.failure = self.failure or error
        self._on_news()

    async def close(self) -> None:
        self._closed = True
        if self._turn_due is not None:
            self._turn_due.cancel()
        tasks = [*self._fetching.values(), *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def look_up(self, topics: Iterable[TopicName]) -> None:
        """Ask for the leaders of topics, soon and until they are known."""
        self._stale |= set(topics)
        if self._refreshing is None and self._stale and not self._closed:
            self._refreshing = self._spawn(self._refresh())

    async def offsets_at(
        self, timestamps: Mapping[TopicPartition, int], timeout_s: float
    ) -> dict[TopicPartition, OffsetAt]:
        """The offset at a time in milliseconds, or at a special time, in each partition. Raises what is final."""
        answers: dict[TopicPartition, OffsetAt] = {}

        async def attempt() -> None:
            pending = {place: time for place, time in timestamps.items() if place not in answers}
            nodes, unknown = by_leader(self.network.view, pending)
            if unknown:
                await self._expect(unknown)
                nodes, unknown = by_leader(self.network.view, pending)
            for node, questions in nodes.items():
                request = list_offsets(questions, self._options.read_committed, self._options.request_timeout_ms)
                response = await self.network.call(node, request, ListOffsetsResponse)
                for place, answer in listed_offsets(response).items():
                    if not isinstance(answer, Rejected):
                        answers[place] = answer
                    elif answer.retriable:
                        self.network.view = self.network.view.without([place.topic])
                    else:
                        raise answer
            if unknown or len(answers) < len(timestamps):
                raise Rejected(ErrorCode.LEADER_NOT_AVAILABLE)

        await self.network.retry(attempt, timeout_s)
        return answers

    async def _expect(self, topics: set[TopicName]) -> None:
        view = await self.network.refresh(topics)
        for name in topics:
            topic = view.topics[name]
            if topic.error:
                raise Rejected(topic.error, f"Topic '{name}': {topic.error.name}.")

    def _turn(self) -> None:
        self._turn_due = None
        with self._lock:
            unplaced = self.reading.unplaced() if self.asked else []
            for place in unplaced:
                place.is_asking = True
            resets = {place.partition: place.reset_to_ms for place in unplaced}
            versions = {place.partition: place.version for place in unplaced}
            wants = self.reading.wants(self.network.view)
        if resets:
            self._spawn(self._place(resets, versions))
        if wants.unknown:
            self.look_up(wants.unknown)
        for node, questions in wants.checks.items():
            self._spawn(self._checks.ask(node, questions))
        for node, partitions in wants.fetches.items():
            if node.id not in self._fetching:
                self._fetching[node.id] = self._spawn(self._fetch(node, partitions))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _place(self, resets: Mapping[TopicPartition, int | None], versions: Mapping[TopicPartition, int]) -> None:
        """Find out where to begin: where the group stopped, else as `auto_offset_reset` says, or at a time."""
        found: dict[TopicPartition, CommittedOffset] = {}
        asked_of: dict[TopicPartition, LeaderEpoch] = {}
        try:
            by_group = [partition for partition, reset in resets.items() if reset is None]
            if by_group and self.committed is not None:
                found.update(await self.committed(by_group))
            times: dict[TopicPartition, int] = {}
            for partition, reset in resets.items():
                if partition in found:
                    continue
                time = self._options.reset_to_ms if reset is None else reset
                if time is None:
                    raise missing_position(partition, None)
                times[partition] = time
            if times:
                timeout_s = self._options.request_timeout_ms / MILLISECONDS
                answers = await self.offsets_at(times, timeout_s)
                late = {place: LATEST for place, answer in answers.items() if answer.offset < 0}
                if late:
                    answers |= await self.offsets_at(late, timeout_s)
                for partition, answer in answers.items():
                    found[partition] = CommittedOffset(answer.offset, answer.leader_epoch)
                    known = self.network.view.partition(partition)
                    asked_of[partition] = NO_EPOCH if known is None else known.leader_epoch
        except ClientError as error:
            await self._place_later(resets, versions, error)
            return
        with self._lock:
            for partition, offset in found.items():
                place = self.reading.places.get(partition)
                if place is not None and place.version == versions[partition] and place.position is None:
                    place.go_to(offset.offset, offset.leader_epoch)
                    # A leader that has just told an offset has it.
                    place.trusted_epoch = asked_of.get(partition, NO_EPOCH)
        self._on_news()
        self.wake()

    async def _place_later(
        self, resets: Mapping[TopicPartition, int | None], versions: Mapping[TopicPartition, int], error: ClientError
    ) -> None:
        if not error.retriable:
            with self._lock:
                places = [self.reading.places.get(partition) for partition in resets]
                concerned = any(place and place.version == versions[place.partition] for place in places)
            if concerned:
                self.fail(error)
        await asyncio.sleep(self.network.backoff_s)
        with self._lock:
            for partition in resets:
                place = self.reading.places.get(partition)
                if place is not None and place.version == versions[partition]:
                    place.is_asking = False
        self.wake()

    async def _fetch(self, node: Node, wanted: dict[TopicPartition, Wanted]) -> None:
        session = self._sessions.get(node.id)
        if session is None:
            session = self._sessions[node.id] = FetchSession()
        again_s = 0.0
        try:
            connection = await self.network.connection(node, Lane.FETCH)
            topics = {partition.topic: self.network.view.topics[partition.topic] for partition in wanted}
            request = session.request(wanted, topics, self._limits)
            timeout_s = (self._options.request_timeout_ms + self._options.fetch_max_wait_ms) / MILLISECONDS + GRACE_S
            future = connection.ask(request, timeout_s, session.newest_version())
            answer = await future
            assert isinstance(answer, FetchResponse), answer
            assert isinstance(request, FetchRequest)
            again_s = self._fetched(session, wanted, answer)
        except KeyError:
            self.look_up({partition.topic for partition in wanted})
            again_s = self.network.backoff_s
        except ClientError as error:
            session.reset()
            log.debug("fetch from %s: %s", node, error)
            if not error.retriable:
                self.fail(error)
            self.look_up({partition.topic for partition in wanted})
            with self._lock:
                for partition in wanted:
                    place = self.reading.places.get(partition)
                    if place is not None:
                        place.replica = NO_NODE
            again_s = self.network.backoff_s
        finally:
            if again_s:
                self._loop.call_later(again_s, self._fetched_from, node.id)
            else:
                self._fetched_from(node.id)

    def _fetched_from(self, node_id: NodeId) -> None:
        self._fetching.pop(node_id, None)
        self.wake()

    def _fetched(self, session: FetchSession, wanted: Mapping[TopicPartition, Wanted], answer: FetchResponse) -> float:
        """Keep what came. Gives how long to wait before the next fetch, because something was wrong."""
        if not session.answered(answer):
            self.look_up({partition.topic for partition in wanted})
            return self.network.backoff_s
        news = False
        pause_s = 0.0
        moved: set[TopicPartition] = set()
        if answer.node_endpoints:
            names = {topic.topic_id: session.name_of(topic.topic, topic.topic_id) for topic in answer.responses}
            hints = hints_for_reader(answer, names)
            self.network.view, moved = follow_hints(self.network.view, hints, answer.node_endpoints)
        for topic in answer.responses:
            name = session.name_of(topic.topic, topic.topic_id)
            for data in topic.partitions:
                partition = TopicPartition(name, PartitionIndex(data.partition_index))
                asked = wanted.get(partition)
                if asked is None:
                    continue
                if data.error_code:
                    self._refused(partition, asked, data)
                    # Who was told where else to go need not wait for others to find out.
                    pause_s = pause_s if partition in moved else self.network.backoff_s
                else:
                    news = self._keep(partition, asked, data) or news
        if news:
            self._on_news()
        return pause_s

    def _keep(self, partition: TopicPartition, asked: Wanted, data: PartitionData) -> bool:
        with self._lock:
            place = self.reading.places.get(partition)
            if place is None or place.fetch_offset != asked.offset:
                return False
            place.high_watermark = Offset(data.high_watermark)
            place.last_stable = Offset(data.last_stable_offset)
            place.log_start = Offset(data.log_start_offset)
            if data.preferred_read_replica >= 0:
                place.replica = NodeId(data.preferred_read_replica)
            if not data.records:
                return False
            view = memoryview(data.records)
            end, epoch = end_of(view, asked.offset)
            if end == asked.offset:
                return False
            aborted = tuple(data.aborted_transactions or ()) if self._options.read_committed else None
            chunk = FetchedChunk(partition, view, asked.offset, aborted, place.high_watermark, epoch)
            return self.reading.came(chunk, end)

    def _refused(self, partition: TopicPartition, asked: Wanted, data: PartitionData) -> None:
        code = code_of(data.error_code)
        with self._lock:
            place = self.reading.places.get(partition)
            if place is None or place.fetch_offset != asked.offset:
                return
            place.replica = NO_NODE
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                time = self._options.reset_to_ms
                if time is None:
                    self.fail(missing_position(partition, asked.offset))
                elif not place.chunks:
                    self.reading.reset([partition], time)
                return
        if code in RETRIABLE:
            self.look_up([partition.topic])
        else:
            self.fail(Rejected(code, f"{partition} cannot be read: {code.name}."))

    async def _refresh(self) -> None:
        backoff_s = self.network.backoff_s
        try:
            while self._stale:
                wanted = set(self._stale)
                try:
                    view = await self.network.refresh(wanted)
                except ClientError as error:
                    log.debug("metadata of %s: %s", sorted(wanted), error)
                    if not error.retriable:
                        self.fail(error)
                else:
                    for name in wanted:
                        topic = view.topics[name]
                        if not topic.error and all(partition.leader in view.nodes for partition in topic.partitions):
                            self._stale.discard(name)
                        elif topic.error and topic.error not in RETRIABLE:
                            self._stale.discard(name)
                            self.fail(Rejected(topic.error, f"Topic '{name}': {topic.error.name}."))
                    self.wake()
                if self._stale:
                    await asyncio.sleep(backoff_s)
                    backoff_s = min(2 * backoff_s, self._options.retry_backoff_max_ms / MILLISECONDS)
                    with self._lock:
                        self._stale &= {partition.topic for partition in self.reading.places}
        finally:
            self._refreshing = None
