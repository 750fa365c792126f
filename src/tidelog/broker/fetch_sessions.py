"""Fetch sessions (KIP-227): what a client reads from, remembered between its fetches.

A session is told by the leaders which of its partitions have grown, so that a fetch looks at those alone and its cost
does not grow with the number of partitions read. A fetch without a session uses the same class for the length of one
request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol
from uuid import UUID

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.replica.follower import PartitionFollower
from tidelog.replica.leader import PartitionLeader
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

SESSIONLESS_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
# In place of an offset that a client was told.
NEVER_TOLD: Final = -2
FIRST_VERSION_WITH_SESSIONS: Final = 7
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13

PartitionKey = tuple[str, UUID, int]


class Wakes(Protocol):
    def grew(self, grown_bytes: int) -> None: ...

    def supersede(self) -> None: ...


class FetchedPartition:
    """One partition as a client reads it; also the watcher that the leader tells about growth."""

    __slots__ = (
        "answered_high_watermark",
        "answered_start",
        "index",
        "leader",
        "position",
        "session",
        "topic",
        "topic_id",
    )

    def __init__(self, session: FetchSession, topic: str, topic_id: UUID, position: FetchPartition) -> None:
        self.session = session
        self.topic = topic
        self.topic_id = topic_id
        self.index = position.partition
        self.position = position
        self.leader: PartitionLeader | PartitionFollower | None = None
        # What the client was last told, so that an unchanged partition is left out of the answer.
        self.answered_high_watermark = NEVER_TOLD
        self.answered_start = NEVER_TOLD

    def grew(self, _: object, grown_bytes: int) -> None:
        session = self.session
        session.ready[self] = None
        if session.waiting is not None:
            session.waiting.grew(grown_bytes)

    def has_news(self, data: PartitionData) -> bool:
        """Whether the client was told other offsets than these, or none yet."""
        return data.high_watermark != self.answered_high_watermark or data.log_start_offset != self.answered_start

    def watch(self, leader: PartitionLeader | PartitionFollower | None) -> None:
        if self.leader is leader:
            return
        if self.leader is not None:
            self.leader.watchers.pop(self, None)
            self.leader.end_watchers.pop(self, None)
        self.leader = leader
        if leader is not None:
            (leader.end_watchers if self.session.is_replica else leader.watchers)[self] = None


class FetchSession:
    __slots__ = ("by_id", "epoch", "id", "is_replica", "last_used", "partitions", "ready", "waiting")

    def __init__(self, session_id: int, by_id: bool) -> None:
        self.id = session_id
        self.by_id = by_id
        # Whether a follower reads, up to the end of the log, and not a consumer.
        self.is_replica = False
        self.epoch = INITIAL_EPOCH
        self.last_used = 0.0
        self.partitions: dict[PartitionKey, FetchedPartition] = {}
        # Those that may have something new, oldest first. A partition that was left out for want of room stays in.
        self.ready: dict[FetchedPartition, None] = {}
        self.waiting: Wakes | None = None

    @property
    def incremental(self) -> bool:
        return self.epoch > INITIAL_EPOCH

    def update(self, request: FetchRequest) -> None:
        """Take in the partitions that the request adds, moves or forgets."""
        partitions, ready = self.partitions, self.ready
        for topic in request.topics:
            for position in topic.partitions:
                key = (topic.topic, topic.topic_id, position.partition)
                fetched = partitions.get(key)
                if fetched is None:
                    partitions[key] = fetched = FetchedPartition(self, topic.topic, topic.topic_id, position)
                else:
                    fetched.position = position
                    if self.is_replica:
                        # It may not have used the last answer: what it was told then it is told again.
                        fetched.answered_high_watermark = fetched.answered_start = NEVER_TOLD
                ready[fetched] = None
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                fetched = partitions.pop((forgotten.topic, forgotten.topic_id, index), None)
                if fetched is not None:
                    fetched.watch(None)
                    ready.pop(fetched, None)

    def forget_all(self) -> None:
        for fetched in self.partitions.values():
            fetched.watch(None)
        self.partitions.clear()
        self.ready.clear()


class FetchSessions:
    """The cache of sessions, bounded; the one unused for longest makes room when it has been idle long enough."""

    def __init__(
        self, sessions_max: int, idle_seconds_min: float, now: Callable[[], float], random_id: Callable[[], int]
    ) -> None:
        self._max = sessions_max
        self._idle_seconds_min = idle_seconds_min
        self._now = now
        self._random_id = random_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._replicas: dict[int, int] = {}
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def for_request(self, version: int, request: FetchRequest) -> FetchSession:
        """The session that this request belongs to, updated. Raises the top-level error of the answer."""
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        if version < FIRST_VERSION_WITH_SESSIONS or request.session_epoch == FINAL_EPOCH:
            self._remove(request.session_id)
            session = FetchSession(SESSIONLESS_ID, by_id)
        elif request.session_epoch == INITIAL_EPOCH:
            self._remove(request.session_id)
            session = self._create(by_id) if request.topics else FetchSession(SESSIONLESS_ID, by_id)
        else:
            session = self._go_on(request, by_id)
        session.update(request)
        return session

    def belongs_to(self, session: FetchSession, replica: int) -> None:
        """A follower reads: it has one session at a time, so an earlier one, of a connection that broke, is over."""
        session.is_replica = True
        if session.id != SESSIONLESS_ID and self._replicas.get(replica) != session.id:
            self._remove(self._replicas.get(replica, SESSIONLESS_ID))
            self._replicas[replica] = session.id

    def _go_on(self, request: FetchRequest, by_id: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ProtocolError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.by_id != by_id:
            raise ProtocolError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        expected = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        if request.session_epoch != expected:
            raise ProtocolError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = expected
        session.last_used = self._now()
        self._sessions.move_to_end(session.id)
        return session

    def _create(self, by_id: bool) -> FetchSession:
        """A new session, or a sessionless one when the cache is full of sessions in use."""
        now = self._now()
        if len(self._sessions) >= self._max:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now - oldest.last_used < self._idle_seconds_min:
                return FetchSession(SESSIONLESS_ID, by_id)
            self._remove(oldest.id)
            self.evicted += 1
        session_id = self._random_id()
        while session_id == SESSIONLESS_ID or session_id in self._sessions:
            session_id = self._random_id()
        session = FetchSession(session_id, by_id)
        session.last_used = now
        self._sessions[session_id] = session
        return session

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.forget_all()
