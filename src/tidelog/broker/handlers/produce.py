"""Produce (key 0), v3-v13. v8: per-record errors (KIP-467). v10: leader hints (KIP-951). v13: topic ids (KIP-516).

acks=0 gets no answer; when it fails the connection is closed, so that the client looks for the leader again. acks=1
is answered after the turn's write, acks=all once the in-sync replicas have the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from tidelog.broker.call import Call
from tidelog.broker.leader_hints import hint_producer
from tidelog.broker.timers import Timer, Timers
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import Offset
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import LedPartitions
from tidelog.replica.record_rules import RecordsRefused
from tidelog.wire.batch import HEADER_BYTES, read_header
from tidelog.wire.compression import Compression
from tidelog.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

NO_ACKS: Final = 0
LEADER_ACKS: Final = 1
ALL_ACKS: Final = -1
FIRST_VERSION_WITH_ZSTD: Final = 7
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
# Shared by all answers that have no other leader to name.
NO_LEADER_HINT: Final = LeaderIdAndEpoch()


class Turn(Protocol):
    def answer(self, call: Call, response: ProduceResponse) -> None: ...

    def after_writes(self, request: PendingProduce) -> None: ...

    def begin(self) -> None: ...


class Transactions(Protocol):
    """Asks the coordinator before a transaction begins to write to a partition."""

    def hold(self, request: ProduceRequest, version: int, resume: Callable[[ProduceRequest], None]) -> bool: ...


class PendingProduce:
    """A produce request with acks=0, acks=all, or to a log that is synced first, between its staging and its answer."""

    __slots__ = (
        "_acks",
        "_call",
        "_leaders",
        "_missing",
        "_partitions",
        "_response",
        "_timeout_ms",
        "_timer",
        "_timers",
    )

    def __init__(
        self,
        call: Call,
        response: ProduceResponse,
        acks: int,
        timeout_ms: int,
        timers: Timers,
        partitions: LedPartitions,
    ) -> None:
        self._partitions = partitions
        self._call = call
        self._response = response
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._timers = timers
        self._timer: Timer | None = None
        self._missing = 0
        # What was appended where, to wait for its replication or sync.
        self._leaders: list[tuple[PartitionLeader, Offset, PartitionProduceResponse]] = []

    def wait_for(self, leader: PartitionLeader, answer: PartitionProduceResponse) -> None:
        self._leaders.append((leader, leader.staged_end_offset, answer))

    def after_writes(self) -> None:
        if self._acks == NO_ACKS:
            self._answer_nothing()
            return
        for leader, end_offset, answer in self._leaders:
            if leader.high_watermark < end_offset and not answer.error_code:
                if leader.resigned:
                    self._resigned(answer)
                    continue
                leader.waiting_acks.add(end_offset, self)
                self._missing += 1
        if self._missing:
            self._timer = self._timers.call_later(self._timeout_ms / 1000, self._timed_out)
        else:
            self._call.answer(self._response)

    def replicated(self) -> None:
        self._missing -= 1
        if not self._missing and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._call.answer(self._response)

    def failed(self) -> None:
        for leader, end_offset, answer in self._leaders:
            if leader.high_watermark < end_offset and not answer.error_code:
                if leader.failed:
                    answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                elif leader.resigned:
                    self._resigned(answer)
        self.replicated()

    def _resigned(self, answer: PartitionProduceResponse) -> None:
        answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        hint_producer(self._partitions.image, self._call, self._response)

    def _timed_out(self) -> None:
        self._timer = None
        for leader, end_offset, answer in self._leaders:
            if leader.high_watermark < end_offset and not answer.error_code:
                answer.error_code = (
                    ErrorCode.REQUEST_TIMED_OUT
                    if leader.enough_in_sync()
                    else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
                )
        self._call.answer(self._response)

    def _answer_nothing(self) -> None:
        for topic in self._response.responses:
            for answer in topic.partition_responses:
                if answer.error_code:
                    self._call.abort(f"acks=0 produce failed: {ErrorCode(answer.error_code).name}")
                    return
        self._call.answer_nothing()


class ProduceHandler:
    def __init__(
        self,
        partitions: LedPartitions,
        turn: Turn,
        timers: Timers,
        now_ms: Callable[[], int],
        transactions: Transactions,
    ) -> None:
        self._partitions = partitions
        self._turn = turn
        self._timers = timers
        self._now_ms = now_ms
        self._transactions = transactions

    def __call__(self, call: Call, request: ProduceRequest, is_settled: bool = False) -> None:
        if (
            request.transactional_id is not None
            and not is_settled
            and self._transactions.hold(request, call.header.api_version, lambda settled: self._resume(call, settled))
        ):
            return
        acks = request.acks
        by_id = call.header.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
        before_zstd = call.header.api_version < FIRST_VERSION_WITH_ZSTD
        partitions = self._partitions
        now_ms = self._now_ms()
        topics: list[TopicProduceResponse] = []
        response = ProduceResponse(topics)
        pending = (
            None
            if acks == LEADER_ACKS
            else PendingProduce(call, response, acks, request.timeout_ms, self._timers, partitions)
        )
        is_misdirected = False
        for topic in request.topic_data:
            answers: list[PartitionProduceResponse] = []
            topics.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
            led = partitions.by_id.get(topic.topic_id) if by_id else partitions.by_name.get(topic.name)
            for partition in topic.partition_data:
                index = partition.index
                answer = PartitionProduceResponse(index, 0, 0, -1, -1, [], None, NO_LEADER_HINT)
                answers.append(answer)
                leader = led.get(index) if led is not None else None
                try:
                    if leader is None:
                        raise ProtocolError(
                            partitions.why_not_led_by_id(topic.topic_id, index)
                            if by_id
                            else partitions.why_not_led(topic.name, index)
                        )
                    if acks != LEADER_ACKS:
                        _check_acks(acks, leader)
                    if before_zstd:
                        _check_compression(partition.records)
                    leader.stage(partition.records, answer, now_ms)
                    if leader.syncs_first and pending is None:
                        pending = PendingProduce(call, response, acks, request.timeout_ms, self._timers, partitions)
                    if pending is not None:
                        pending.wait_for(leader, answer)
                except ProtocolError as error:
                    answer.error_code = error.code
                    answer.error_message = error.message
                    answer.base_offset = -1
                    if isinstance(error, RecordsRefused):
                        answer.record_errors = error.records
                    if leader is not None:
                        leader.batches_refused += 1
                    elif error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                        is_misdirected = True
        if is_misdirected:
            hint_producer(partitions.image, call, response)
        if pending is None:
            self._turn.answer(call, response)
        else:
            self._turn.after_writes(pending)

    def _resume(self, call: Call, request: ProduceRequest) -> None:
        """The coordinator has said which transactions may begin; it may do so outside of a turn."""
        self._turn.begin()
        self(call, request, is_settled=True)


def _check_acks(acks: int, leader: PartitionLeader) -> None:
    if acks == ALL_ACKS:
        if not leader.enough_in_sync():
            raise ProtocolError(ErrorCode.NOT_ENOUGH_REPLICAS)
    elif acks != NO_ACKS:
        raise ProtocolError(ErrorCode.INVALID_REQUIRED_ACKS)


def _check_compression(records: memoryview | None) -> None:
    """A client that speaks an old version could not read zstd back (KIP-110)."""
    if records is not None and len(records) >= HEADER_BYTES and read_header(records).compression == Compression.ZSTD:
        raise ProtocolError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or newer")
