"""A member of a group of the new protocol (KIP-848) as a machine: heartbeats say everything, the broker shares.

The broker tells what the member shall have; the member lets go of what is not in it, takes what is new, and says in its
next heartbeat what it has. Pure: events in, effects out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final, assert_never

from tidelog.client.core.coordinators import COORDINATOR_MOVED
from tidelog.client.core.member import (
    Adopt,
    Answered,
    Ask,
    Effect,
    Event,
    Fail,
    Leave,
    LookUp,
    Polled,
    Rediscover,
    Release,
    Released,
    Subscribed,
    Tick,
    Unanswered,
)
from tidelog.client.core.options import ConsumerOptions
from tidelog.client.core.transaction import GroupMetadata
from tidelog.client.errors import Rejected, code_of
from tidelog.model.errors import RETRIABLE, ErrorCode
from tidelog.model.ids import PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

MILLISECONDS: Final = 1000.0
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2

FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class Phase(Enum):
    """What the member is at."""

    OUTSIDE = auto()
    MEMBER = auto()
    RELEASING = auto()  # The program has to give partitions up first.
    LEFT = auto()


class ConsumerMember:
    """One member of one group."""

    def __init__(self, options: ConsumerOptions, new_id: Callable[[], str]) -> None:
        """`new_id` gives the id by which the member is known for all its life (KIP-1082)."""
        assert options.group_id is not None
        self.phase = Phase.OUTSIDE
        self.member_id = new_id()
        self.epoch = JOIN_EPOCH
        self.owned: frozenset[TopicPartition] = frozenset()
        self._options = options
        self._request_s = options.request_timeout_ms / MILLISECONDS
        self._backoff_s = options.retry_backoff_ms / MILLISECONDS
        self._interval_s = options.heartbeat_interval_ms / MILLISECONDS
        self._subscribed: Subscribed | None = None
        # What the broker wants us to have: by id, because a name may not be known yet.
        self._target: dict[TopicId, tuple[int, ...]] | None = None
        self._names: dict[TopicId, TopicName] = {}
        self._ids: dict[TopicName, TopicId] = {}
        self._pending: ConsumerGroupHeartbeatRequest | None = None
        self._heartbeat_at: float | None = None
        self._polled_at: float | None = None
        # What the broker has been told, and need not be told again.
        self._told_topics: frozenset[TopicName] | None = None
        self._told_owned: frozenset[TopicPartition] | None = None
        self._after: frozenset[TopicPartition] = frozenset()

    @property
    def wake_at(self) -> float | None:
        times = [self._heartbeat_at]
        if self._polled_at is not None and self.phase is not Phase.OUTSIDE:
            times.append(self._polled_at + self._poll_interval_s)
        return min((time for time in times if time is not None), default=None)

    @property
    def identity(self) -> GroupMetadata:
        return GroupMetadata(self._group_id, self.epoch, self.member_id, self._options.group_instance_id)

    @property
    def is_stable(self) -> bool:
        return self.phase is Phase.MEMBER and self.epoch > JOIN_EPOCH

    @property
    def has_left(self) -> bool:
        return self.phase is Phase.LEFT

    @property
    def _poll_interval_s(self) -> float:
        return self._options.max_poll_interval_ms / MILLISECONDS

    @property
    def _group_id(self) -> str:
        assert self._options.group_id is not None
        return self._options.group_id

    def step(self, now: float, event: Event) -> list[Effect]:
        if self.phase is Phase.LEFT:
            return []
        match event:
            case Tick():
                return self._time_passed(now)
            case Polled():
                self._polled_at = now
                return self._time_passed(now)
            case Subscribed():
                self._subscribed = event
                self._learn(event)
                return [*self._reconcile(now), *self._time_passed(now)]
            case Answered(request, response):
                assert isinstance(response, ConsumerGroupHeartbeatResponse), response
                return self._answered(now, response) if request is self._pending else []
            case Unanswered(request, error):
                if request is not self._pending:
                    return []
                self._pending = None
                if not error.retriable:
                    return [Fail(error)]
                self._say_all_again()
                self._heartbeat_at = now + self._backoff_s
                return [Rediscover()]
            case Released():
                return self._released(now)
            case Leave():
                return self._leave()
            case unknown:
                assert_never(unknown)

    def _learn(self, event: Subscribed) -> None:
        for name, topic_id in event.ids.items():
            self._names[topic_id] = name
            self._ids[name] = topic_id

    def _time_passed(self, now: float) -> list[Effect]:
        if self._polled_at is not None and now - self._polled_at >= self._poll_interval_s:
            return self._fall_asleep()
        if self._subscribed is None or self._polled_at is None or self._pending is not None:
            return []
        if self.phase is Phase.OUTSIDE:
            self.phase = Phase.MEMBER
            self._say_all_again()
            self._heartbeat_at = now
        news = self._subscribed.topics != self._told_topics
        if self._heartbeat_at is not None and (now >= self._heartbeat_at or (news and self.epoch > JOIN_EPOCH)):
            return self._heartbeat(now)
        return []

    def _heartbeat(self, now: float) -> list[Effect]:
        """Say what changed; everything when it is the first, or the last was perhaps not heard."""
        assert self._subscribed is not None
        joining = self.epoch == JOIN_EPOCH
        topics = self._subscribed.topics
        whole = joining or self._told_topics is None
        owned = None
        if self._told_owned != self.owned or whole:
            owned = [] if joining else self._rows(self.owned)
        self._pending = ConsumerGroupHeartbeatRequest(
            self._group_id,
            self.member_id,
            self.epoch,
            self._options.group_instance_id,
            (self._options.client_rack or None) if whole else None,
            self._options.max_poll_interval_ms if whole else -1,
            sorted(topics) if topics != self._told_topics or whole else None,
            None,
            self._options.group_remote_assignor if whole else None,
            owned,
        )
        self._told_topics = topics
        self._told_owned = self.owned
        self._heartbeat_at = now + self._interval_s
        return [Ask(self._pending, self._request_s)]

    def _answered(self, now: float, answer: ConsumerGroupHeartbeatResponse) -> list[Effect]:
        self._pending = None
        code = code_of(answer.error_code)
        if code:
            return self._refused(now, code, answer.error_message)
        if answer.member_id:
            self.member_id = answer.member_id
        self.epoch = answer.member_epoch
        self._interval_s = answer.heartbeat_interval_ms / MILLISECONDS or self._interval_s
        self._heartbeat_at = now + self._interval_s
        if answer.assignment is not None:
            self._target = {topic.topic_id: tuple(topic.partitions) for topic in answer.assignment.topic_partitions}
        return [*self._reconcile(now), *self._time_passed(now)]

    def _reconcile(self, now: float) -> list[Effect]:
        """Come nearer to what the broker wants: first let go, then take."""
        if self._target is None or self.phase is not Phase.MEMBER:
            return []
        unknown = [topic_id for topic_id in self._target if topic_id not in self._names]
        wanted = frozenset(
            TopicPartition(self._names[topic_id], PartitionIndex(index))
            for topic_id, partitions in self._target.items()
            if topic_id in self._names
            for index in partitions
        )
        effects: list[Effect] = []
        if unknown and self._subscribed is not None:
            effects.append(LookUp(self._subscribed.topics))
        else:
            self._target = None
        gone = self.owned - wanted
        if gone:
            self.phase = Phase.RELEASING
            self._after = wanted
            return [*effects, Release(gone)]
        return [*effects, *self._adopt(now, wanted)]

    def _adopt(self, now: float, wanted: frozenset[TopicPartition]) -> list[Effect]:
        added = wanted - self.owned
        changed = wanted != self.owned or self._told_owned != wanted
        self.owned = wanted
        if changed and self._pending is None:
            self._heartbeat_at = now  # The broker waits to hear that we have it.
        return [Adopt(wanted, added)]

    def _released(self, now: float) -> list[Effect]:
        if self.phase is not Phase.RELEASING:
            return []
        if self.epoch == JOIN_EPOCH:
            self.phase = Phase.OUTSIDE
            self.owned = frozenset()
            return self._time_passed(now)
        self.phase = Phase.MEMBER
        effects = self._adopt(now, self._after)
        return [*effects, *self._reconcile(now), *self._time_passed(now)]

    def _refused(self, now: float, code: ErrorCode, message: str | None) -> list[Effect]:
        if code in FENCED:
            self.epoch = JOIN_EPOCH
            self._target = None
            self._say_all_again()
            self._heartbeat_at = None
            if self.phase is Phase.RELEASING:
                return []
            return self._lose(now)
        if code in COORDINATOR_MOVED:
            self._say_all_again()
            self._heartbeat_at = now + self._backoff_s
            return [Rediscover()]
        if code in RETRIABLE or code is ErrorCode.UNRELEASED_INSTANCE_ID:
            # A static member may have to wait until its predecessor is known to be gone.
            self._say_all_again()
            self._heartbeat_at = now + max(self._backoff_s, self._interval_s / 3)
            return []
        return [Fail(Rejected(code, message))]

    def _lose(self, now: float) -> list[Effect]:
        if not self.owned:
            self.phase = Phase.OUTSIDE
            return self._time_passed(now)
        gone, self.owned = self.owned, frozenset()
        self.phase = Phase.RELEASING
        return [Release(gone, lost=True)]

    def _say_all_again(self) -> None:
        self._told_topics = None
        self._told_owned = None

    def _fall_asleep(self) -> list[Effect]:
        """The program has stopped asking: others get its partitions. With its next poll it joins again."""
        self._polled_at = None
        if self.phase is Phase.OUTSIDE:
            return []
        effects: list[Effect] = [Ask(self._leave_request(), self._request_s)]
        self.epoch = JOIN_EPOCH
        self._target = None
        self._heartbeat_at = None
        self._pending = None
        if self.phase is not Phase.RELEASING:
            gone, self.owned = self.owned, frozenset()
            self.phase = Phase.RELEASING if gone else Phase.OUTSIDE
            if gone:
                effects.append(Release(gone, lost=True))
        return effects

    def _leave(self) -> list[Effect]:
        was_in = self.phase is not Phase.OUTSIDE
        request = self._leave_request()
        self.phase = Phase.LEFT
        self._heartbeat_at = None
        self.owned = frozenset()
        return [Ask(request, self._request_s)] if was_in else []

    def _leave_request(self) -> ConsumerGroupHeartbeatRequest:
        static = self._options.group_instance_id is not None
        epoch = LEAVE_FOR_A_WHILE_EPOCH if static else LEAVE_EPOCH
        return ConsumerGroupHeartbeatRequest(self._group_id, self.member_id, epoch, self._options.group_instance_id)

    def _rows(self, partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
        rows: dict[TopicId, list[int]] = {}
        for place in sorted(partitions):
            rows.setdefault(self._ids[place.topic], []).append(place.partition)
        return [TopicPartitions(topic_id, indexes) for topic_id, indexes in rows.items()]
