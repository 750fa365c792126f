"""What one broker fetches from another: which partitions, from where, in a fetch session (KIP-227), so that an idle
partition costs nothing.

Pure: the broker's edge sends `request`, hands the answer to `answered` and calls again; times are passed in. A
partition that the leader refuses is left out for a while and harms no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol

from tidelog.log.errors import LogFailed
from tidelog.log.producer_replay import KnownProducers
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicId, TopicPartition
from tidelog.replica.follower import BackOff, GoOn, PartitionFollower, StartOver, SyncFirst, Truncate
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
EPOCH_MAX: Final = 2**31 - 1
# The first wait after a refusal; each further one doubles it, up to `replica.fetch.backoff.ms`. Short, because the
# usual reason is that the new leader has not heard of it yet.
BACKOFF_MS_MIN: Final = 20
UNTIL_RESUMED_MS: Final = 2**62
# Refusals that pass by themselves once both sides know the same metadata; not worth a word in the log.
EXPECTED_REFUSALS: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)

Key = tuple[TopicId, PartitionIndex]


class Cutting(Protocol):
    """Cuts logs durably, whatever the disk must be told first. Raises LogFailed."""

    def prepare(
        self,
        offsets: Mapping[TopicPartition, Offset],
        then: Callable[[dict[TopicPartition, KnownProducers], int], None],
    ) -> None:
        """Find out, perhaps in a thread, what these cuts need to know; `then` gets it and the time."""
        ...

    def truncate(
        self, offsets: Mapping[TopicPartition, Offset], known: Mapping[TopicPartition, KnownProducers]
    ) -> None: ...
    def start_over(self, partition: TopicPartition, offset: Offset) -> None: ...


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """The settings `replica.fetch.*`."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    response_bytes_max: int = 10 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024
    backoff_ms_max: int = 1000


class Asked(NamedTuple):
    """A request on its way, to be handed back with its answer."""

    number: int
    session_number: int
    request: FetchRequest


class _Cut(NamedTuple):
    """A log that is to be cut, as it was when that was decided."""

    fetching: _Fetching
    offset: Offset
    epoch: LeaderEpoch
    end: Offset


class _Fetching:
    """One partition as the leader's session knows it."""

    __slots__ = ("asked_in", "due_ms", "follower", "in_session", "refusals", "sent_epoch", "sent_offset")

    def __init__(self, follower: PartitionFollower) -> None:
        self.follower = follower
        self.in_session = False
        # The request that last named it: answers to earlier ones are about something else.
        self.asked_in = 0
        self.sent_offset = -1
        self.sent_epoch = -1
        self.refusals = 0
        # When it may be asked for again; None while it may.
        self.due_ms: int | None = None


class Fetcher:
    """All that this broker fetches from one other."""

    def __init__(
        self,
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        settings: FetcherSettings,
        cutting: Cutting,
        on_refused: Callable[[PartitionFollower, ErrorCode, str], None],
        on_cut: Callable[[], None],
    ) -> None:
        """`on_cut` is called when logs were cut, so that there may be something to ask."""
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._settings = settings
        self._cutting = cutting
        self._on_refused = on_refused
        self._on_cut = on_cut
        self._fetching: dict[Key, _Fetching] = {}
        # To be named in the next request: new, or at another offset than the leader knows.
        self._changed: dict[Key, _Fetching] = {}
        self._forgotten: dict[Key, None] = {}
        self._delayed: list[tuple[int, int, _Fetching]] = []
        self._delays = 0
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH
        # Whether the leader had no room for a session when it was last asked for one.
        self._is_sessionless = False
        # Counts sessions and requests, so that an answer is known to be of this session and this position.
        self._session_number = 0
        self._number = 0

    def __len__(self) -> int:
        return len(self._fetching)

    def followers(self) -> list[PartitionFollower]:
        return [fetching.follower for fetching in self._fetching.values()]

    # Which partitions

    def add(self, follower: PartitionFollower) -> None:
        """Fetch a partition; one that is already fetched begins anew, at its leader's new epoch."""
        key = _key(follower)
        fetching = _Fetching(follower)
        known = self._fetching.get(key)
        fetching.in_session = known is not None and known.in_session
        self._fetching[key] = fetching
        if follower.syncs_first():
            # What a crash left in the page cache: it was not counted before, and may still be lost.
            fetching.due_ms = UNTIL_RESUMED_MS
            self._forget(key, fetching)
            return
        self._changed[key] = fetching
        self._forgotten.pop(key, None)

    def remove(self, follower: PartitionFollower) -> None:
        """Fetch a partition no more; what is still answered about it is dropped."""
        key = _key(follower)
        fetching = self._fetching.get(key)
        if fetching is not None and fetching.follower is follower:
            del self._fetching[key]
            self._forget(key, fetching)

    def resume(self, follower: PartitionFollower) -> None:
        """What the partition waited for (a sync) is done."""
        fetching = self._fetching.get(_key(follower))
        if fetching is not None and fetching.follower is follower:
            fetching.due_ms = None
            self._changed[_key(follower)] = fetching

    def _forget(self, key: Key, fetching: _Fetching) -> None:
        self._changed.pop(key, None)
        if fetching.in_session:
            fetching.in_session = False
            self._forgotten[key] = None

    # Asking

    def has_news(self, now_ms: int) -> bool:
        """Whether the leader should hear something before it answers the request that it holds."""
        self._wake(now_ms)
        return bool(self._changed) and self._session_epoch != INITIAL_EPOCH

    def next_due_ms(self) -> int | None:
        """When a partition that was refused may be asked for again."""
        return self._delayed[0][0] if self._delayed else None

    def request(self, now_ms: int) -> Asked | None:
        """What to ask now; None when there is nothing to fetch."""
        self._wake(now_ms)
        in_full = self._session_epoch == INITIAL_EPOCH
        if in_full:
            chosen = {key: one for key, one in self._fetching.items() if one.due_ms is None}
            self._forgotten.clear()
        else:
            chosen = self._changed
        self._changed = {}
        held_back = {key: one for key, one in chosen.items() if one.follower.is_held_back}
        for key, one in held_back.items():
            self._delay(key, one, now_ms + self._settings.backoff_ms_max)
        if held_back:
            chosen = {key: one for key, one in chosen.items() if key not in held_back}
        if not chosen and not any(one.in_session for one in self._fetching.values()):
            self._end_session()
            return None
        for key in chosen:
            # It was to be forgotten when it was refused, and came up again before that was said: leaders forget last.
            self._forgotten.pop(key, None)
        self._number += 1
        request = FetchRequest(
            replica_state=ReplicaState(self._node_id, self._broker_epoch()),
            # The first answer comes at once: until then the leader cannot be told of further partitions.
            max_wait_ms=0 if in_full and not self._is_sessionless else self._settings.wait_ms_max,
            min_bytes=self._settings.bytes_min,
            max_bytes=self._settings.response_bytes_max,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=self._topics(chosen),
            forgotten_topics_data=_forgotten_topics(self._forgotten),
        )
        self._forgotten.clear()
        if not in_full:
            self._session_epoch = 1 if self._session_epoch == EPOCH_MAX else self._session_epoch + 1
        return Asked(self._number, self._session_number, request)

    def _topics(self, chosen: Mapping[Key, _Fetching]) -> list[FetchTopic]:
        topics: dict[TopicId, FetchTopic] = {}
        for (topic_id, index), fetching in chosen.items():
            follower = fetching.follower
            log = follower.log
            fetching.in_session = True
            fetching.asked_in = self._number
            fetching.sent_offset = log.end_offset
            fetching.sent_epoch = follower.epoch
            topic = topics.get(topic_id)
            if topic is None:
                topics[topic_id] = topic = FetchTopic(follower.topic, topic_id, [])
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=follower.epoch,
                    fetch_offset=log.end_offset,
                    last_fetched_epoch=log.epochs.latest,
                    log_start_offset=log.start_offset,
                    partition_max_bytes=self._settings.partition_bytes_max,
                )
            )
        return list(topics.values())

    def _wake(self, now_ms: int) -> None:
        while self._delayed and self._delayed[0][0] <= now_ms:
            due_ms, _, fetching = heappop(self._delayed)
            key = _key(fetching.follower)
            if fetching.due_ms == due_ms and self._fetching.get(key) is fetching:
                fetching.due_ms = None
                self._changed[key] = fetching

    def _delay(self, key: Key, fetching: _Fetching, due_ms: int) -> None:
        self._forget(key, fetching)
        fetching.due_ms = due_ms
        self._delays += 1
        heappush(self._delayed, (due_ms, self._delays, fetching))

    # The answer

    def failed(self, asked: Asked) -> None:
        """There will be no answer: the leader may or may not have seen the request, so its session is given up."""
        if asked.session_number == self._session_number:
            self._end_session()

    def answered(self, asked: Asked, response: FetchResponse, now_ms: int) -> bool:
        """Take in an answer; False when the session is over and the next request should not wait."""
        if asked.session_number != self._session_number:
            return True
        if response.error_code:
            self._end_session()
            return False
        if self._session_epoch == INITIAL_EPOCH:
            if response.session_id != NO_SESSION:
                self._session_id = response.session_id
                self._session_epoch = INITIAL_EPOCH + 1
                self._is_sessionless = False
            else:
                self._is_sessionless = True
                # The leader has no room for another session: every request names everything.
                for fetching in self._fetching.values():
                    fetching.in_session = False
        truncations: dict[Key, Offset] = {}
        for topic in response.responses:
            for data in topic.partitions:
                self._take((topic.topic_id, PartitionIndex(data.partition_index)), data, asked, truncations, now_ms)
        if truncations:
            self._prepare_cuts(truncations)
        return True

    def _take(self, key: Key, data: PartitionData, asked: Asked, truncations: dict[Key, Offset], now_ms: int) -> None:
        fetching = self._fetching.get(key)
        if fetching is None or fetching.due_ms is not None or asked.number < fetching.asked_in:
            return
        follower = fetching.follower
        end, start = follower.log.end_offset, follower.log.start_offset
        if fetching.sent_epoch != follower.epoch or fetching.sent_offset != end:
            self._changed[key] = fetching
            return
        match follower.take(data):
            case GoOn():
                fetching.refusals = 0
                if follower.log.end_offset != end or follower.log.start_offset != start:
                    self._changed[key] = fetching
            case SyncFirst():
                fetching.refusals = 0
                self._forget(key, fetching)
                fetching.due_ms = UNTIL_RESUMED_MS
            case Truncate(offset) if offset >= end:
                self._drop_empty_epochs(key, fetching, now_ms)
            case Truncate(offset):
                truncations[key] = offset
            case StartOver(offset):
                self._start_over(key, fetching, offset, now_ms)
            case BackOff(code, reason, is_known):
                self._refused(key, fetching, code, reason, now_ms, is_known=is_known)

    def _prepare_cuts(self, truncations: Mapping[Key, Offset]) -> None:
        """Cut all logs of one answer together, as soon as it is known what that takes; until then they are left out."""
        cuts: dict[Key, _Cut] = {}
        for key, offset in truncations.items():
            fetching = self._fetching[key]
            self._forget(key, fetching)
            fetching.due_ms = UNTIL_RESUMED_MS
            follower = fetching.follower
            cuts[key] = _Cut(fetching, offset, follower.epoch, follower.log.end_offset)
        offsets = {cut.fetching.follower.log.partition: cut.offset for cut in cuts.values()}
        self._cutting.prepare(offsets, partial(self._cut, cuts))

    def _cut(self, cuts: Mapping[Key, _Cut], known: Mapping[TopicPartition, KnownProducers], now_ms: int) -> None:
        # Whoever leads by now, or follows another leader, is not cut on the word of the former one.
        still = {key: cut for key, cut in cuts.items() if self._fetching.get(key) is cut.fetching}
        wanted = {key: cut for key, cut in still.items() if _is_as_it_was(cut)}
        offsets = {cut.fetching.follower.log.partition: cut.offset for cut in wanted.values()}
        try:
            self._cutting.truncate(offsets, known)
        except LogFailed as failure:
            for key, cut in wanted.items():
                self._refused(key, cut.fetching, ErrorCode.KAFKA_STORAGE_ERROR, str(failure), now_ms)
        else:
            for cut in wanted.values():
                cut.fetching.follower.truncated()
        for key, cut in still.items():
            if cut.fetching.due_ms == UNTIL_RESUMED_MS:
                cut.fetching.due_ms = None
                self._changed[key] = cut.fetching
        self._on_cut()

    def _drop_empty_epochs(self, key: Key, fetching: _Fetching, now_ms: int) -> None:
        """The logs are the same but for epochs in which this broker led and wrote nothing."""
        log = fetching.follower.log
        latest = log.epochs.latest
        log.truncate_to(log.end_offset)
        if log.epochs.latest == latest:
            reason = "the leader finds a difference where there is none"
            self._refused(key, fetching, ErrorCode.UNKNOWN_SERVER_ERROR, reason, now_ms)
        else:
            self._changed[key] = fetching

    def _start_over(self, key: Key, fetching: _Fetching, offset: Offset, now_ms: int) -> None:
        try:
            self._cutting.start_over(fetching.follower.log.partition, offset)
        except LogFailed as failure:
            self._refused(key, fetching, ErrorCode.KAFKA_STORAGE_ERROR, str(failure), now_ms)
            return
        fetching.follower.truncated()
        self._changed[key] = fetching

    def _refused(
        self, key: Key, fetching: _Fetching, code: ErrorCode, reason: str, now_ms: int, *, is_known: bool = False
    ) -> None:
        wait_ms = min(BACKOFF_MS_MIN << min(fetching.refusals, 16), self._settings.backoff_ms_max)
        # Less and less often: a disk may stay full for days.
        is_told = fetching.refusals & (fetching.refusals - 1) == 0
        fetching.refusals += 1
        if is_told and not is_known and code not in EXPECTED_REFUSALS:
            self._on_refused(fetching.follower, code, reason)
        self._delay(key, fetching, now_ms + wait_ms)

    def _end_session(self) -> None:
        self._session_number += 1
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH
        self._changed.clear()
        self._forgotten.clear()
        for fetching in self._fetching.values():
            fetching.in_session = False


def _is_as_it_was(cut: _Cut) -> bool:
    follower = cut.fetching.follower
    return follower.epoch == cut.epoch and follower.log.end_offset == cut.end and not follower.failed


def _key(follower: PartitionFollower) -> Key:
    return follower.topic_id, follower.index


def _forgotten_topics(keys: Mapping[Key, None]) -> list[ForgottenTopic]:
    topics: dict[TopicId, ForgottenTopic] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(index)
    return list(topics.values())
