"""Everything of a consumer that happens in an event loop, for both fronts: subscriptions, positions, commits, the end.

`AsyncConsumer` lives in the same loop; the blocking `Consumer` has it run in a thread. Handing out records is theirs.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from tidelog.client.aio.consume_engine import ConsumeEngine
from tidelog.client.aio.group_driver import GroupDriver
from tidelog.client.aio.network import Network
from tidelog.client.core.assignors import assignors_of
from tidelog.client.core.classic_member import ClassicMember
from tidelog.client.core.consumer_member import ConsumerMember
from tidelog.client.core.described import OffsetAt
from tidelog.client.core.groups import CommittedOffset
from tidelog.client.core.member import Adopt, Member, Polled, Release, Released
from tidelog.client.core.options import ConsumerOptions
from tidelog.client.core.subscription import Subscription
from tidelog.client.core.transaction import GroupMetadata
from tidelog.client.errors import ClientError, InvalidOption
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition

MILLISECONDS: Final = 1000.0

log = logging.getLogger("tidelog.client")

OffsetsToCommit = Mapping[TopicPartition, CommittedOffset | int]


class ConsumerMachine:
    """A consumer in its loop."""

    def __init__(
        self, options: ConsumerOptions, lock: AbstractContextManager[Any], on_news: Callable[[], None]
    ) -> None:
        self.network = Network(options)
        self.engine = ConsumeEngine(options, self.network, lock, on_news)
        self.group: GroupDriver | None = None
        self.subscription: Subscription | None = None
        self._options = options
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._assignors = assignors_of(options.assignors)
        self._committing: asyncio.Task[None] | None = None
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        self._timeout_s = options.request_timeout_ms / MILLISECONDS
        if options.group_id is not None:
            self.group = GroupDriver(options, self.network, on_news, self.engine.fail)
            self.engine.committed = self._begin_at

    @property
    def commits_by_itself(self) -> bool:
        return self.group is not None and self._options.enable_auto_commit

    def subscribe(self, subscription: Subscription) -> None:
        """Be a member of the group and read what it gives."""
        if self.group is None:
            raise InvalidOption("subscribe needs a group_id; without one, assign says what to read.")
        if self.subscription is None:
            self._read([])
        self.subscription = subscription
        self.group.join(self._new_member(), subscription)

    async def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        self.subscription = None
        if self.group is not None:
            await self.group.leave()
        self._read([])

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these, without being a member of a group."""
        if self.subscription is not None:
            await self.unsubscribe()
        self._read(partitions)

    def polled(self) -> None:
        """The program asked for records."""
        self.engine.asked = True
        if self.group is not None:
            self.group.step(Polled())

    @property
    def has_news(self) -> bool:
        """Whether the program has to be told something before it gets more records."""
        return self.engine.failure is not None or (self.group is not None and bool(self.group.changes))

    def next_change(self) -> Release | Adopt | None:
        """What the group gives or takes next, of which the program has to be told."""
        if self.group is None or not self.group.changes:
            return None
        return self.group.changes[0]

    def release(self, change: Release) -> None:
        """The program was told: read them no more, and let the group know."""
        assert self.group is not None
        self.group.changes.popleft()
        with self._lock:
            self.engine.reading.drop(change.partitions)
        self.group.step(Released())

    def adopt(self, change: Adopt) -> None:
        """Read what the group gives."""
        assert self.group is not None
        self.group.changes.popleft()
        self._read(change.partitions)

    async def commit(self, offsets: OffsetsToCommit | None = None, timeout_s: float | None = None) -> None:
        """Commit offsets, or how far everything was read."""
        if self.group is None:
            raise InvalidOption("commit needs a group_id.")
        if self._committing is not None:
            await asyncio.wait([self._committing])
        if offsets is None:
            with self._lock:
                offsets = self.engine.reading.to_commit()
        wanted = {place: as_committed(offset) for place, offset in offsets.items()}
        await self.group.commit(wanted, self._timeout_s if timeout_s is None else timeout_s)
        self._committed.update(wanted)

    def commit_soon(self, positions: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit without waiting; one that fails is followed by another."""
        news = {place: offset for place, offset in positions.items() if self._committed.get(place) != offset}
        if self._committing is None and news and self.group is not None:
            self._committing = self._loop.create_task(self._commit(news))

    async def commit_quietly(self) -> None:
        """Commit how far everything was read; a failure is logged."""
        try:
            await self.commit()
        except ClientError as error:
            log.warning("The commit of group %s failed: %s", self._options.group_id, error)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        if self.group is None:
            raise InvalidOption("committed needs a group_id.")
        return await self.group.committed(list(partitions), self._timeout_s)

    async def position(self, partition: TopicPartition) -> Offset:
        """The offset of the next record, waited for if it is not known yet."""

        async def known() -> Offset:
            while True:
                with self._lock:
                    place = self.engine.reading.place(partition)
                if place.position is not None:
                    return place.position
                self.engine.asked = True
                self.engine.wake()
                await asyncio.sleep(POSITION_PAUSE_S)

        async with asyncio.timeout(self._timeout_s):
            return await known()

    async def offsets_at(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        return await self.engine.offsets_at(timestamps, self._timeout_s)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Every partition of a topic."""
        name = TopicName(topic)
        found = await self.network.retry(lambda: self.network.topic(name), TOPIC_WAIT_S)
        return [TopicPartition(name, PartitionIndex(index)) for index in range(len(found.partitions))]

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for `send_offsets_to_transaction`."""
        if self.group is None:
            raise InvalidOption("There is no group without a group_id.")
        return self.group.identity

    async def close(self, commit: bool) -> None:
        """Commit if so is the setting, leave the group, end."""
        if commit and self.commits_by_itself:
            await self.commit_quietly()
        if self.group is not None:
            await self.group.leave()
            await self.group.close()
        if self._committing is not None:
            self._committing.cancel()
        await self.engine.close()
        await self.network.close()

    def _new_member(self) -> Member:
        if self._options.group_protocol == "consumer":
            return ConsumerMember(self._options, _new_id)
        return ClassicMember(self._options, self._assignors)

    def _read(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            self.engine.reading.assign(partitions)
        self.engine.asked = False
        self.engine.wake()

    async def _begin_at(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, CommittedOffset]:
        assert self.group is not None
        return await self.group.committed(partitions, self._timeout_s)

    async def _commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        assert self.group is not None
        try:
            await self.group.commit(offsets, self._timeout_s)
            self._committed.update(offsets)
        except ClientError as error:
            log.warning("The commit of group %s failed: %s", self._options.group_id, error)
        finally:
            self._committing = None


POSITION_PAUSE_S: Final = 0.01
# How long a topic may be unknown before it counts as missing: one just created is not known to every broker at once.
TOPIC_WAIT_S: Final = 1.0


def as_committed(offset: CommittedOffset | int) -> CommittedOffset:
    return offset if isinstance(offset, CommittedOffset) else CommittedOffset(Offset(offset))


def _new_id() -> str:
    return str(uuid.uuid4())
