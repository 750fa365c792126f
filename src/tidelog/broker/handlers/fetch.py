"""Fetch (key 1), v4-v18. v7: fetch sessions (KIP-227). v9: leader epochs (KIP-320). v11: rack (KIP-392). v12:
diverging epochs (KIP-595). v13: topic ids (KIP-516). v16: leader hints (KIP-951).

Answers carry ranges of log files that the connection sends with sendfile; no batch is decoded. A fetch that finds
less than `min_bytes` waits, without a task or a poll, until the leaders have told its session of enough growth or its
time is over. Consumers read up to the high watermark, here or from a follower near them; followers read up to the end,
and say by where they fetch what they have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from tidelog.broker.call import Call
from tidelog.broker.fetch_sessions import SESSIONLESS_ID, FetchedPartition, FetchSession, FetchSessions
from tidelog.broker.leader_hints import HINTED_FETCH_ERRORS, hint_reader
from tidelog.broker.timers import Timers
from tidelog.log.errors import OffsetOutOfRange
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.replica.follower import PartitionFollower
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import NONE_LED, LedPartitions
from tidelog.replica.throttle import Throttle
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)

READ_COMMITTED: Final = 1
NO_REPLICA: Final = -1
FIRST_VERSION_WITH_RACK: Final = 11
FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
# In place of the bytes that are left: none for this partition, even if it is the first.
HELD_BACK: Final = -(2**62)
# Shared by all answers: most say nothing about diverging epochs, leaders or snapshots.
NO_DIVERGENCE: Final = EpochEndOffset()
NO_LEADER_HINT: Final = LeaderIdAndEpoch()
NO_SNAPSHOT: Final = SnapshotId()


# Where a consumer in a rack should rather read a partition from an offset on; NO_REPLICA for here.
ReplicaSelector = Callable[[PartitionLeader, str, Offset], int]


class FetchHandler:
    def __init__(
        self,
        partitions: LedPartitions,
        sessions: FetchSessions,
        timers: Timers,
        fetch_bytes_max: int,
        selector: ReplicaSelector | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        self._throttle = throttle
        self._partitions = partitions
        self._sessions = sessions
        self._timers = timers
        self._fetch_bytes_max = fetch_bytes_max
        self._selector = selector

    def __call__(self, call: Call, request: FetchRequest) -> FetchResponse | None:
        version = call.header.api_version
        try:
            session = self._sessions.for_request(version, request)
        except ProtocolError as error:
            return FetchResponse(0, error.code)
        if session.waiting is not None:
            session.waiting.supersede()
        state = request.replica_state
        replica = state.replica_id if version >= FIRST_VERSION_WITH_REPLICA_STATE else request.replica_id
        if replica >= 0:
            self._sessions.belongs_to(session, replica)
            self._partitions.fetched_by(NodeId(replica), state.replica_epoch, request.topics, session.by_id)
        reading = Reading(self._partitions, session, request, min(request.max_bytes, self._fetch_bytes_max))
        reading.replica = replica
        reading.throttle = self._throttle
        if version >= FIRST_VERSION_WITH_RACK and not session.is_replica:
            reading.reads_followers = True
            if request.rack_id and self._selector is not None:
                reading.selector = self._selector
        reading.collect()
        if (
            reading.found_bytes >= request.min_bytes
            or reading.failed
            or request.max_wait_ms <= 0
            or not session.partitions
        ):
            return reading.response(call)
        session.waiting = WaitingFetch(call, reading, self._timers, request)
        return None


class WaitingFetch:
    """A fetch that found too little to answer yet."""

    __slots__ = ("_call", "_missing_bytes", "_reading", "_timer")

    def __init__(self, call: Call, reading: Reading, timers: Timers, request: FetchRequest) -> None:
        self._call = call
        self._reading = reading
        self._missing_bytes = request.min_bytes - reading.found_bytes
        reading.watch()
        self._timer = timers.call_later(request.max_wait_ms / 1000, self._answer)

    def grew(self, grown_bytes: int) -> None:
        self._missing_bytes -= grown_bytes
        if self._missing_bytes <= 0:
            self._timer.cancel()
            self._answer()

    def supersede(self) -> None:
        """The client asks for more before this is answered: it has found nothing."""
        self._timer.cancel()
        session = self._reading.session
        session.waiting = None
        self._call.answer(FetchResponse(0, 0, session.id))

    def _answer(self) -> None:
        session = self._reading.session
        if session.waiting is self:
            session.waiting = None
        self._reading.collect()
        self._call.answer(self._reading.response(self._call))


class Reading:
    """What one fetch has found, and how the answer is made of it."""

    __slots__ = (
        "_bytes_max",
        "_found",
        "_partitions",
        "_rack",
        "_read_committed",
        "_up_to",
        "failed",
        "found_bytes",
        "reads_followers",
        "replica",
        "selector",
        "session",
        "throttle",
    )

    def __init__(self, partitions: LedPartitions, session: FetchSession, request: FetchRequest, bytes_max: int) -> None:
        self._partitions = partitions
        self._bytes_max = bytes_max
        self._read_committed = request.isolation_level == READ_COMMITTED
        self._rack = request.rack_id
        # Where reading ended in the partition that was looked at last.
        self._up_to = Offset(0)
        # The follower that reads; NO_REPLICA for a consumer.
        self.replica = NO_REPLICA
        self.reads_followers = False
        self.selector: ReplicaSelector | None = None
        self.throttle: Throttle | None = None
        self.session = session
        self.found_bytes = 0
        self.failed = False
        self._found: list[tuple[FetchedPartition, PartitionData]] = []

    def collect(self) -> None:
        """Look at the partitions that may have something; those with nothing new leave the ready set."""
        session = self.session
        self._found = []
        self.found_bytes = 0
        self.failed = False
        quiet: list[FetchedPartition] = []
        left_bytes = self._bytes_max
        # The first answer of a session, and one without, tells of every partition; later ones of those that have news.
        for fetched in session.ready if session.incremental else session.partitions.values():
            if left_bytes <= 0 and session.incremental:
                break
            data = self._read(fetched, left_bytes)
            size = len(data.records) if data.records is not None else 0
            left_bytes -= size
            self.found_bytes += size
            if data.error_code or data.diverging_epoch is not NO_DIVERGENCE or data.preferred_read_replica >= 0:
                self.failed = True
            elif (
                not size
                and fetched.position.fetch_offset >= self._up_to
                and not (session.is_replica and fetched.has_news(data))
            ):
                # Before that, a partition without records only had no room in this answer; and a follower that has all
                # still waits for the high watermark that this makes possible.
                quiet.append(fetched)
            self._found.append((fetched, data))
        if session.id != SESSIONLESS_ID:
            for fetched in quiet:
                session.ready.pop(fetched, None)
            # Who was served goes to the end, so that a busy partition does not starve the ones behind it.
            for fetched, data in self._found:
                if data.records is not None and fetched in session.ready:
                    del session.ready[fetched]
                    session.ready[fetched] = None

    def watch(self) -> None:
        """A sessionless fetch is told of growth only while it waits."""
        if self.session.id == SESSIONLESS_ID:
            for fetched in self.session.partitions.values():
                fetched.watch(self._leader(fetched))

    def response(self, call: Call) -> FetchResponse:
        session = self.session
        incremental = session.incremental
        is_misdirected = False
        topics: dict[tuple[str, UUID], FetchableTopicResponse] = {}
        for fetched, data in self._found:
            if incremental and not (
                data.records is not None
                or data.error_code
                or data.diverging_epoch is not NO_DIVERGENCE
                or data.preferred_read_replica >= 0
                or fetched.has_news(data)
            ):
                continue
            fetched.answered_high_watermark = data.high_watermark
            fetched.answered_start = data.log_start_offset
            if data.records is None:
                data.records = b""
                is_misdirected |= data.error_code in HINTED_FETCH_ERRORS
            key = (fetched.topic, fetched.topic_id)
            topic = topics.get(key)
            if topic is None:
                topics[key] = topic = FetchableTopicResponse(fetched.topic, fetched.topic_id, [])
            topic.partitions.append(data)
        if session.id == SESSIONLESS_ID:
            session.forget_all()
        response = FetchResponse(0, 0, session.id, list(topics.values()))
        if is_misdirected:
            hint_reader(self._partitions.image, call, response)
        return response

    def _leader(self, fetched: FetchedPartition) -> PartitionLeader | PartitionFollower | None:
        leader: PartitionLeader | None
        if self.session.by_id:
            leader = self._partitions.by_id.get(fetched.topic_id, NONE_LED).get(fetched.index)
        else:
            leader = self._partitions.by_name.get(fetched.topic, NONE_LED).get(fetched.index)
        if leader is None and self.reads_followers:
            return self._partitions.follower(fetched.topic, fetched.topic_id, fetched.index)
        return leader

    def _read(self, fetched: FetchedPartition, left_bytes: int) -> PartitionData:
        leader = self._leader(fetched)
        if self.session.id != SESSIONLESS_ID:
            fetched.watch(leader)
        if leader is None:
            return _refused(
                fetched,
                self._partitions.why_not_led_by_id(fetched.topic_id, fetched.index)
                if self.session.by_id
                else self._partitions.why_not_led(fetched.topic, fetched.index),
            )
        position = fetched.position
        log = leader.log
        start = log.start_offset
        high_watermark = leader.high_watermark
        stable = leader.last_stable_offset
        up_to = stable if self._read_committed else high_watermark
        offset = Offset(position.fetch_offset)
        divergence = NO_DIVERGENCE
        preferred = NO_REPLICA
        try:
            leader.check_epoch(position.current_leader_epoch)
            if self.replica >= 0:
                up_to = log.end_offset
                if self.replica not in leader.replicas:
                    # One of the two has not heard of its assignment yet.
                    raise ProtocolError(ErrorCode.UNKNOWN_LEADER_EPOCH)
                if self._holds_back(leader):
                    left_bytes = HELD_BACK
            self._up_to = up_to
            if offset < start:
                raise OffsetOutOfRange(offset, start, log.end_offset)
            if position.last_fetched_epoch >= 0:
                divergence = _divergence(leader, LeaderEpoch(position.last_fetched_epoch), offset)
            if divergence is NO_DIVERGENCE and offset > log.end_offset:
                raise OffsetOutOfRange(offset, start, log.end_offset)
            if self.selector is not None and isinstance(leader, PartitionLeader):
                preferred = self.selector(leader, self._rack, offset)
            records = (
                leader.read(
                    offset,
                    min(position.partition_max_bytes, max(left_bytes, 0)),
                    up_to,
                    at_least_one_batch=self.found_bytes == 0,
                )
                if offset < up_to and divergence is NO_DIVERGENCE and preferred < 0 and left_bytes != HELD_BACK
                else None
            )
        except OffsetOutOfRange:
            return _refused(fetched, ErrorCode.OFFSET_OUT_OF_RANGE, start)
        except ProtocolError as error:
            return _refused(fetched, error.code, start if error.code is ErrorCode.OFFSET_OUT_OF_RANGE else -1)
        if records is not None:
            leader.bytes_out += len(records)
            if self.replica >= 0 and self.throttle is not None and leader.is_throttled:
                self.throttle.spend(len(records))
        aborted: list[AbortedTransaction] | None = None
        if self._read_committed:
            aborted = []
            if records is not None:
                # Those that concern what is read now, and not all that are to come.
                aborted = [
                    AbortedTransaction(transaction.producer_id, transaction.first_offset)
                    for transaction in log.aborted_transactions(offset, Offset(records.end_offset))
                ]
        return PartitionData(
            fetched.index,
            0,
            high_watermark,
            stable,
            start,
            divergence,
            NO_LEADER_HINT,
            NO_SNAPSHOT,
            aborted,
            preferred,
            records,
        )

    def _holds_back(self, leader: PartitionLeader | PartitionFollower) -> bool:
        """Whether a follower must wait: not in sync, its replica being moved, and too much sent of late."""
        return (
            self.throttle is not None
            and leader.is_throttled
            and self.throttle.is_exceeded
            and isinstance(leader, PartitionLeader)
            and self.replica not in leader.isr
        )


def _divergence(leader: PartitionLeader | PartitionFollower, epoch: LeaderEpoch, offset: Offset) -> EpochEndOffset:
    """Where the reader's log parts from this one, if it does."""
    found = leader.divergence(epoch, offset)
    return NO_DIVERGENCE if found is None else EpochEndOffset(found.epoch, found.end_offset)


def _refused(fetched: FetchedPartition, code: ErrorCode, start: int = -1) -> PartitionData:
    return PartitionData(
        fetched.index, code, -1, -1, start, NO_DIVERGENCE, NO_LEADER_HINT, NO_SNAPSHOT, None, NO_REPLICA, None
    )
