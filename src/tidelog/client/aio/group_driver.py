"""Does what a member's machine decides: asks the coordinator, watches the topics, commits and reads offsets.

What the machine gives and takes is kept in a queue that the program's `poll` serves: so a program is told of a
rebalance only while it asks for records. Runs in one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar, assert_never

from tidelog.client.aio.network import Lane, Network
from tidelog.client.core.coordinators import COORDINATOR_MOVED, CoordinatorKind
from tidelog.client.core.groups import (
    OFFSET_COMMIT_BY_NAME,
    OFFSET_FETCH_BY_NAME,
    CommittedOffset,
    commit_offsets,
    committed_offsets,
    fetch_offsets,
    fetched_offsets,
)
from tidelog.client.core.member import (
    Adopt,
    Answered,
    Ask,
    Effect,
    Event,
    Fail,
    Leave,
    LookUp,
    Member,
    Rediscover,
    Release,
    Subscribed,
    Tick,
    Unanswered,
)
from tidelog.client.core.metadata import Node
from tidelog.client.core.options import ConsumerOptions
from tidelog.client.core.subscription import Subscription
from tidelog.client.core.transaction import GroupMetadata
from tidelog.client.errors import ClientError, CommitFailed, RebalanceInProgress, Rejected
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName, TopicPartition
from tidelog.wire.messages.leave_group import LeaveGroupRequest
from tidelog.wire.messages.offset_commit import OffsetCommitResponse
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from tidelog.wire.schema import Request, Response

MILLISECONDS: Final = 1000.0
LEAVE_SEVERAL_VERSION: Final = 3
LEAVE_S: Final = 5.0
# No generation, or the epoch with which a member of the new protocol joins.
OUTSIDE_GENERATION_MAX: Final = 0
REQUIRE_STABLE_VERSION: Final = 7
# How soon to look again for a topic that is not there.
MISSING_TOPIC_S: Final = 1.0

OUSTED: Final = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})

R = TypeVar("R", bound=Response)

log = logging.getLogger("tidelog.client")


class GroupDriver:
    """One group, and this consumer as a member of it or only as one who commits."""

    def __init__(
        self,
        options: ConsumerOptions,
        network: Network,
        on_news: Callable[[], None],
        on_fail: Callable[[ClientError], None],
    ) -> None:
        assert options.group_id is not None
        self.changes: deque[Release | Adopt] = deque()
        self.member: Member | None = None
        self._group_id = options.group_id
        self._options = options
        self._network = network
        self._on_news = on_news
        self._on_fail = on_fail
        self._loop = asyncio.get_running_loop()
        self._coordinator: Node | None = None
        self._finding: asyncio.Task[Node] | None = None
        self._subscription: Subscription | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timeout_s = options.request_timeout_ms / MILLISECONDS

    @property
    def identity(self) -> GroupMetadata:
        """Who commits."""
        return GroupMetadata(self._group_id) if self.member is None else self.member.identity

    def join(self, member: Member, subscription: Subscription) -> None:
        """Be a member from now on; what it reads may change later."""
        self.member = self.member if self.member is not None and not self.member.has_left else member
        self._subscription = subscription
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._spawn(self._watch_topics())

    def step(self, event: Event) -> None:
        """Tell the machine that something happened, and do what it says."""
        if self.member is None:
            return
        for effect in self.member.step(self._loop.time(), event):
            self._do(effect)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_at = self.member.wake_at
        if wake_at is not None:
            self._timer = self._loop.call_at(wake_at, self.step, Tick())

    async def leave(self) -> None:
        """Be no member any more. A coordinator that does not answer finds out by itself."""
        if self._watch is not None:
            self._watch.cancel()
        if self.member is None:
            return
        effects = self.member.step(self._loop.time(), Leave())
        self.changes.clear()
        if self._timer is not None:
            self._timer.cancel()
        for effect in effects:
            if isinstance(effect, Ask):
                try:
                    async with asyncio.timeout(LEAVE_S):
                        await self._call(effect.request, effect.timeout_s)
                except (ClientError, TimeoutError) as error:
                    log.debug("leaving %s: %s", self._group_id, error)
        self.member = None

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset], timeout_s: float) -> None:
        """Let the group remember offsets. CommitFailed when they are others' to say by now."""
        if not offsets:
            return

        async def attempt() -> None:
            who = self.identity
            if self.member is not None and who.generation <= OUTSIDE_GENERATION_MAX:
                # As nobody it might be accepted, over what the group has done meanwhile.
                raise CommitFailed("The consumer is not in the group now: poll to join again.")
            request = commit_offsets(self._group_id, offsets)
            request.generation_id_or_member_epoch = who.generation
            request.member_id = who.member_id
            request.group_instance_id = who.group_instance_id
            answer = await self._ask_coordinator(request, OffsetCommitResponse, OFFSET_COMMIT_BY_NAME)
            for rejected in committed_offsets(answer).values():
                if rejected is not None:
                    raise self._commit_error(rejected, who)

        await self._network.retry(attempt, timeout_s)

    async def committed(
        self, partitions: list[TopicPartition] | None, timeout_s: float
    ) -> dict[TopicPartition, CommittedOffset]:
        """What the group remembers of some partitions, or of all; those of which it remembers nothing are left out."""

        async def attempt() -> dict[TopicPartition, CommittedOffset]:
            node = await self._find()
            connection = await self._network.connection(node)
            version = connection.version_of(OffsetFetchRequest, OFFSET_FETCH_BY_NAME)
            request = fetch_offsets(self._group_id, partitions, version)
            request.require_stable = version >= REQUIRE_STABLE_VERSION
            answer = await self._ask_coordinator(request, OffsetFetchResponse, OFFSET_FETCH_BY_NAME)
            found: dict[TopicPartition, CommittedOffset] = {}
            try:
                for place, offset in fetched_offsets(answer).items():
                    if isinstance(offset, Rejected):
                        raise offset
                    found[place] = offset
            except Rejected as error:
                self._moved(error)
                raise
            return found

        return await self._network.retry(attempt, timeout_s)

    def _commit_error(self, error: Rejected, who: GroupMetadata) -> ClientError:
        self._moved(error)
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            return RebalanceInProgress("The group is sharing its partitions anew: poll, then commit again.")
        if error.code is ErrorCode.STALE_MEMBER_EPOCH and self.identity != who:
            error.retriable = True  # The broker has moved on with us: the new epoch will do.
            return error
        if error.code in OUSTED or error.code is ErrorCode.STALE_MEMBER_EPOCH:
            return CommitFailed(f"The group has given the partitions to others ({error.code.name}).")
        return error

    def _do(self, effect: Effect) -> None:
        match effect:
            case Ask(request, timeout_s):
                self._spawn(self._ask(request, timeout_s))
            case Release() | Adopt():
                self.changes.append(effect)
                self._on_news()
            case Rediscover():
                self._coordinator = None
            case LookUp(topics):
                self._spawn(self._look_up(topics))
            case Fail(error):
                self._on_fail(error)
            case unknown:
                assert_never(unknown)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _ask(self, request: Request, timeout_s: float) -> None:
        try:
            response = await self._call(request, timeout_s)
        except ClientError as error:
            if error.retriable:
                # A broker that is being looked for is not asked without a pause.
                await asyncio.sleep(self._network.backoff_s)
            self.step(Unanswered(request, error))
        else:
            self.step(Answered(request, response))

    async def _call(self, request: Request, timeout_s: float) -> Response:
        node = await self._find()
        connection = await self._network.connection(node, Lane.GROUP)
        if isinstance(request, LeaveGroupRequest):
            several = connection.version_of(LeaveGroupRequest) >= LEAVE_SEVERAL_VERSION
            request = LeaveGroupRequest(
                request.group_id, "" if several else request.member_id, request.members if several else []
            )
        answer = await connection.ask(request, timeout_s)
        assert isinstance(answer, Response), answer
        return answer

    async def _ask_coordinator(self, request: Request, response: type[R], at_most: int) -> R:
        node = await self._find()
        try:
            return await self._network.call(node, request, response, at_most=at_most)
        except ClientError:
            self._coordinator = None
            raise

    def _moved(self, error: Rejected) -> None:
        if error.code in COORDINATOR_MOVED:
            self._coordinator = None

    async def _find(self) -> Node:
        if self._coordinator is None:
            if self._finding is None:
                work = self._network.coordinator(CoordinatorKind.GROUP, self._group_id)
                self._finding = self._loop.create_task(work)
            try:
                self._coordinator = await asyncio.shield(self._finding)
            finally:
                self._finding = None
        return self._coordinator

    async def _watch_topics(self) -> None:
        """Tell the machine which topics there are to read, now and again and again."""
        while True:
            pause_s = self._options.metadata_max_age_ms / MILLISECONDS
            try:
                event = await self._look_around(frozenset())
                self.step(event)
                if not event.topics or any(not event.counts.get(topic) for topic in event.topics):
                    pause_s = min(pause_s, MISSING_TOPIC_S)
            except ClientError as error:
                if not error.retriable:
                    self._on_fail(error)
                pause_s = self._network.backoff_s
            await asyncio.sleep(pause_s)

    async def _look_up(self, others: frozenset[TopicName]) -> None:
        while True:
            try:
                self.step(await self._look_around(others))
                return
            except ClientError:
                await asyncio.sleep(self._network.backoff_s)

    async def _look_around(self, others: frozenset[TopicName]) -> Subscribed:
        """What the subscription means now, and how many partitions those and other topics have."""
        subscription = self._subscription
        assert subscription is not None
        if subscription.pattern is not None:
            view = await self._network.refresh(None)
        else:
            view = await self._network.refresh(
                subscription.topics | others, create=self._options.allow_auto_create_topics
            )
        topics = subscription.topics_in(view)
        known = [view.topics[name] for name in topics | others if name in view.topics]
        return Subscribed(
            topics,
            {topic.name: len(topic.partitions) for topic in known if not topic.error},
            {topic.name: topic.id for topic in known if not topic.error},
        )
