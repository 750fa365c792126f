"""A member of a classic group as a machine: join, share, sync, heartbeat, rebalance, leave.

Pure: events in, effects out. Between two polls of the program nothing is taken away from it: a rebalance that needs
partitions back asks for them with `Release` and waits. Heartbeats go on meanwhile, until the program has not polled for
`max_poll_interval_ms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final, assert_never

from tidelog.client.core.assignors import Assignor
from tidelog.client.core.coordinators import COORDINATOR_MOVED
from tidelog.client.core.group_protocol import (
    NO_GENERATION,
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
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
from tidelog.model.ids import TopicName, TopicPartition
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tidelog.wire.schema import Request, Response

CONSUMER_PROTOCOL: Final = "consumer"
MILLISECONDS: Final = 1000.0
# A join is answered when everyone has joined, which may take as long as a rebalance may, and a little more.
JOIN_GRACE_S: Final = 5.0

EXPELLED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class Phase(Enum):
    """What the member is at."""

    OUTSIDE = auto()  # Not in the group, or on the way into its next generation.
    RELEASING = auto()  # The program has to give partitions up first.
    JOINING = auto()
    SHARING = auto()  # The leader waits to know how many partitions there are.
    SYNCING = auto()
    STABLE = auto()
    LEFT = auto()


class ClassicMember:
    """One member of one group."""

    def __init__(self, options: ConsumerOptions, assignors: Sequence[Assignor]) -> None:
        assert options.group_id is not None
        self.phase = Phase.OUTSIDE
        self.member_id = ""
        self.generation = NO_GENERATION
        self.owned: frozenset[TopicPartition] = frozenset()
        self._options = options
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._cooperative = all(assignor.cooperative for assignor in assignors)
        self._request_s = options.request_timeout_ms / MILLISECONDS
        self._heartbeat_s = options.heartbeat_interval_ms / MILLISECONDS
        self._backoff_s = options.retry_backoff_ms / MILLISECONDS
        self._subscribed: Subscribed | None = None
        # What the last join said, and what the leader saw when it shared.
        self._joined_with: frozenset[TopicName] = frozenset()
        self._shared: Mapping[TopicName, int] | None = None
        self._members: dict[str, MemberSubscription] = {}
        self._assignor: Assignor = next(iter(assignors))
        # What was had in the last generation, for sticky assignors.
        self._remembered: frozenset[TopicPartition] = frozenset()
        self._pending: Request | None = None
        self._heartbeat: Request | None = None
        self._heartbeat_at: float | None = None
        self._join_at: float | None = None
        self._polled_at: float | None = None
        self._after_release: Phase = Phase.OUTSIDE

    @property
    def wake_at(self) -> float | None:
        times = [self._heartbeat_at, self._join_at]
        if self._polled_at is not None and self.phase is not Phase.OUTSIDE:
            times.append(self._polled_at + self._poll_interval_s)
        return min((time for time in times if time is not None), default=None)

    @property
    def identity(self) -> GroupMetadata:
        assert self._options.group_id is not None
        return GroupMetadata(self._options.group_id, self.generation, self.member_id, self._options.group_instance_id)

    @property
    def is_stable(self) -> bool:
        return self.phase is Phase.STABLE

    @property
    def has_left(self) -> bool:
        return self.phase is Phase.LEFT

    @property
    def _poll_interval_s(self) -> float:
        return self._options.max_poll_interval_ms / MILLISECONDS

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
                return self._subscribe(now, event)
            case Answered(request, response):
                return self._answered(now, request, response)
            case Unanswered(request, error):
                return self._unanswered(now, request) if error.retriable else [Fail(error)]
            case Released():
                return self._released(now)
            case Leave():
                return self._leave()
            case unknown:
                assert_never(unknown)

    def _time_passed(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self._polled_at is not None and now - self._polled_at >= self._poll_interval_s:
            return self._fall_asleep()
        if self.phase is Phase.OUTSIDE and self._may_join(now):
            effects += self._prepare_join(now)
        if self._heartbeat_at is not None and now >= self._heartbeat_at and self._heartbeat is None:
            self._heartbeat_at = now + self._heartbeat_s
            self._heartbeat = HeartbeatRequest(
                self._group_id, self.generation, self.member_id, self._options.group_instance_id
            )
            effects.append(Ask(self._heartbeat, self._request_s))
        return effects

    def _may_join(self, now: float) -> bool:
        return (
            self._subscribed is not None
            and self._polled_at is not None
            and (self._join_at is None or now >= self._join_at)
        )

    def _prepare_join(self, now: float) -> list[Effect]:
        """Before an eager rebalance everything is given up, before a cooperative one nothing."""
        self._join_at = None
        if self.owned and not self._cooperative:
            return self._release(self.owned, Phase.OUTSIDE)
        return self._join()

    def _join(self) -> list[Effect]:
        assert self._subscribed is not None
        self.phase = Phase.JOINING
        self._joined_with = self._subscribed.topics
        self._heartbeat_at = None
        topics = tuple(sorted(self._subscribed.topics))
        protocols = []
        for assignor in self._assignors.values():
            owned = tuple(sorted(self.owned))
            data = assignor.user_data(sorted(self.owned or self._remembered), self.generation)
            rack = self._options.client_rack or None
            said = MemberSubscription(topics, owned, self.generation, None, rack, data)
            protocols.append(JoinGroupRequestProtocol(assignor.name, encode_subscription(said)))
        self._pending = JoinGroupRequest(
            self._group_id,
            self._options.session_timeout_ms,
            self._options.max_poll_interval_ms,
            self.member_id,
            self._options.group_instance_id,
            CONSUMER_PROTOCOL,
            protocols,
        )
        return [Ask(self._pending, self._poll_interval_s + JOIN_GRACE_S)]

    def _release(self, partitions: frozenset[TopicPartition], then: Phase, lost: bool = False) -> list[Effect]:
        self.phase = Phase.RELEASING
        self._after_release = then
        self._remembered = self.owned
        self.owned -= partitions
        return [Release(partitions, lost)]

    def _released(self, now: float) -> list[Effect]:
        if self.phase is not Phase.RELEASING:
            return []
        self.phase = self._after_release
        if self.phase is Phase.STABLE:
            # What was taken away can be given to others now: everyone joins again (KIP-429).
            self.phase = Phase.OUTSIDE
        return self._time_passed(now)

    def _subscribe(self, now: float, event: Subscribed) -> list[Effect]:
        self._subscribed = event
        if self.phase is Phase.SHARING:
            return self._share()
        if self.phase is Phase.STABLE and self._is_out_of_date(event):
            self.phase = Phase.OUTSIDE
        return self._time_passed(now)

    def _is_out_of_date(self, event: Subscribed) -> bool:
        if event.topics != self._joined_with:
            return True
        if self._shared is None:
            return False
        seen = {topic: event.counts.get(topic, 0) for topic in self._shared if topic in event.topics}
        return any(self._shared[topic] != count for topic, count in seen.items())

    def _answered(self, now: float, request: Request, response: Response) -> list[Effect]:
        if request is self._heartbeat:
            self._heartbeat = None
            assert isinstance(response, HeartbeatResponse)
            return self._refused(now, code_of(response.error_code)) if response.error_code else []
        if request is not self._pending:
            return []
        self._pending = None
        if isinstance(response, JoinGroupResponse):
            return self._joined(now, response)
        if isinstance(response, LeaveGroupResponse):
            return []
        assert isinstance(response, SyncGroupResponse), response
        if response.error_code:
            return self._refused(now, code_of(response.error_code))
        return self._synced(now, frozenset(decode_assignment(response.assignment)))

    def _joined(self, now: float, answer: JoinGroupResponse) -> list[Effect]:
        code = code_of(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return self._join()
        if code:
            return self._refused(now, code)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self._assignor = self._assignors[answer.protocol_name or next(iter(self._assignors))]
        self._shared = None
        if answer.leader != answer.member_id or answer.skip_assignment:
            return self._sync({})
        self._members = {
            member.member_id: decode_subscription(member.metadata, member.group_instance_id)
            for member in answer.members
        }
        self.phase = Phase.SHARING
        return [LookUp(frozenset(topic for member in self._members.values() for topic in member.topics))]

    def _share(self) -> list[Effect]:
        assert self._subscribed is not None
        wanted = {topic for member in self._members.values() for topic in member.topics}
        counts = {topic: self._subscribed.counts.get(topic, 0) for topic in wanted}
        self._shared = counts
        shares = self._assignor.assign({topic: count for topic, count in counts.items() if count}, self._members)
        return self._sync({member: encode_assignment(share) for member, share in shares.items()})

    def _sync(self, shares: Mapping[str, bytes]) -> list[Effect]:
        self.phase = Phase.SYNCING
        self._pending = SyncGroupRequest(
            self._group_id,
            self.generation,
            self.member_id,
            self._options.group_instance_id,
            CONSUMER_PROTOCOL,
            self._assignor.name,
            [SyncGroupRequestAssignment(member, share) for member, share in shares.items()],
        )
        return [Ask(self._pending, self._poll_interval_s + JOIN_GRACE_S)]

    def _synced(self, now: float, assigned: frozenset[TopicPartition]) -> list[Effect]:
        self.phase = Phase.STABLE
        self._heartbeat_at = now + self._heartbeat_s
        added, gone = assigned - self.owned, self.owned - assigned
        effects: list[Effect] = []
        if gone:
            effects += self._release(gone, Phase.STABLE)
        self.owned = assigned
        effects.append(Adopt(assigned, added))
        if self._subscribed is not None and self._is_out_of_date(self._subscribed) and not gone:
            self.phase = Phase.OUTSIDE
            effects += self._time_passed(now)
        return effects

    def _refused(self, now: float, code: ErrorCode) -> list[Effect]:
        """What an error of the coordinator means, whatever was asked."""
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            if self.phase is not Phase.RELEASING:
                self.phase = Phase.OUTSIDE
            return self._time_passed(now)
        if code in EXPELLED:
            return self._expelled(now, code)
        if code in COORDINATOR_MOVED:
            return [Rediscover(), *self._later(now)]
        if code in RETRIABLE:
            return self._later(now)
        return [Fail(Rejected(code, FATAL_SENTENCES.get(code)))]

    def _expelled(self, now: float, code: ErrorCode) -> list[Effect]:
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.generation = NO_GENERATION
        self._heartbeat_at = None
        if self.phase is Phase.RELEASING:
            return []
        self.phase = Phase.OUTSIDE
        if self.owned:
            return self._release(self.owned, Phase.OUTSIDE, lost=True)
        return self._time_passed(now)

    def _unanswered(self, now: float, request: Request) -> list[Effect]:
        if request is self._heartbeat:
            self._heartbeat = None
            self._heartbeat_at = now + self._backoff_s
            return [Rediscover()]
        if request is not self._pending:
            return []
        self._pending = None
        return [Rediscover(), *self._later(now)]

    def _later(self, now: float) -> list[Effect]:
        """Try again in a moment what was under way: a member that is in the group stays, others join anew."""
        if self.phase in (Phase.JOINING, Phase.SYNCING, Phase.OUTSIDE, Phase.SHARING):
            self.phase = Phase.OUTSIDE
            self._join_at = now + self._backoff_s
        else:
            self._heartbeat_at = now + self._backoff_s
        return []

    def _fall_asleep(self) -> list[Effect]:
        """The program has stopped asking: others get its partitions. With its next poll it joins again."""
        self._polled_at = None
        if self.phase is Phase.OUTSIDE and not self.member_id:
            return []
        effects: list[Effect] = []
        if self._options.group_instance_id is None and self.member_id:
            effects.append(Ask(self._leave_request(), self._request_s))
            self.member_id = ""
        self.generation = NO_GENERATION
        self._heartbeat_at = self._pending = self._heartbeat = None
        if self.owned:
            return [*effects, *self._release(self.owned, Phase.OUTSIDE, lost=True)]
        if self.phase is not Phase.RELEASING:
            self.phase = Phase.OUTSIDE
        return effects

    def _leave(self) -> list[Effect]:
        was_in = bool(self.member_id) and self._options.group_instance_id is None
        self.phase = Phase.LEFT
        self._heartbeat_at = self._join_at = None
        self.owned = frozenset()
        return [Ask(self._leave_request(), self._request_s)] if was_in else []

    def _leave_request(self) -> LeaveGroupRequest:
        return LeaveGroupRequest(self._group_id, self.member_id, [MemberIdentity(self.member_id)])

    @property
    def _group_id(self) -> str:
        assert self._options.group_id is not None
        return self._options.group_id


FATAL_SENTENCES: Final = {
    ErrorCode.FENCED_INSTANCE_ID: "Another consumer with the same group_instance_id has taken its place.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "The group uses no assignor that this consumer has (assignors).",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has as many members as it may have.",
    ErrorCode.INVALID_SESSION_TIMEOUT: "The broker does not allow this session_timeout_ms.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Not authorized to read as this group.",
}
