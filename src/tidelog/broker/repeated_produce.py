"""The short way of produce requests whose form was seen before: only their records are new.

Most requests of most producers are such, and those that came together are taken together. It is for acks=1, and for
acks=all where this broker alone is in sync, to a log that is not synced first; for all else, and for every error, it
steps aside and the request goes the usual way. So does the first batch of a transaction, unless its coordinator is here
and agrees at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from tidelog.broker.call import AnswersInOrder, Calls
from tidelog.broker.connection import ReadsRuns
from tidelog.broker.known_forms import KnownForms
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.batch import TRANSACTIONAL_FLAG
from tidelog.wire.compiler import Output
from tidelog.wire.frames import encode_response
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceRequest
from tidelog.wire.produce_form import ProduceForm, head_of
from tidelog.wire.produce_run import ProducePart, RunReader, run_reader

LEADER_ACKS: Final = 1
ALL_ACKS: Final = -1
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13


class KnownForm(ProduceForm):
    """A form, by which head it is known, and the leader that it went to last."""

    __slots__ = ("head", "leader", "transactional_id")

    def __init__(self, version: int, request: ProduceRequest, head: bytes) -> None:
        super().__init__(version, request)
        self.head = head
        self.transactional_id = request.transactional_id
        self.leader: PartitionLeader | None = None


def _refusals(form: KnownForm, part: ProducePart) -> Sequence[bytearray]:
    """The answers to the requests of a part whose write has failed."""
    answer = PartitionProduceResponse(form.index, part.error_code, -1, error_message=part.error_message)
    return [encode_response(each, form.response(answer), form.version) for each in part.correlation_ids]


class RepeatedCalls(Calls):
    """The calls of a run, answered together: all is known but whether the writes succeed."""

    __slots__ = ("_parts",)

    def __init__(self, connection: AnswersInOrder, parts: Sequence[tuple[KnownForm, ProducePart]], count: int) -> None:
        self.connection = connection
        self.output = None
        self._parts = parts
        self.count = count

    def after_writes(self) -> None:
        """The writes are done, or have failed and said so in the parts."""
        frames: list[bytes | bytearray] = []
        for form, part in self._parts:
            if part.error_code:
                frames += _refusals(form, part)
            else:
                frames += form.answers(part.correlation_ids, part.offsets, part.log_start_offset)
        self.output = Output(b"".join(frames))
        self.connection.answered(self)


class Turn(Protocol):
    @property
    def now_ms(self) -> int: ...

    def after_writes(self, request: RepeatedCalls) -> None: ...


class Transactions(Protocol):
    """Asks the coordinator before a transaction begins to write to a partition."""

    def begins_at_once(
        self, version: int, transactional_id: str, leader: PartitionLeader, producer_id: int, epoch: int
    ) -> bool: ...


class RepeatedProduce:
    """The forms that all connections have sent."""

    def __init__(self, partitions: LedPartitions, turn: Turn, transactions: Transactions, frame_bytes_max: int) -> None:
        self._transactions = transactions
        self._frame_bytes_max = frame_bytes_max
        self._partitions = partitions
        self._turn = turn
        self._forms: KnownForms[bytes, KnownForm] = KnownForms()

    def learn(
        self, version: int, frame: memoryview, request: ProduceRequest, known: ReadsRuns | None
    ) -> RunReader | None:
        """Remember the form of a request that went the usual way; gives the reader for the next ones."""
        if request.acks != LEADER_ACKS and request.acks != ALL_ACKS:
            return None
        head = head_of(version, frame, request)
        if head is None:
            return None
        if head not in self._forms:
            if not self._forms.has_room(self._turn.now_ms):
                return None
            form = KnownForm(version, request, head)
            form.leader = self._leader(form)
            if form.leader is None or not form.leader.takes_runs:
                return None
            self._forms[head] = form
        return run_reader(len(head))

    def stage(
        self, connection: AnswersInOrder, reader: RunReader, view: memoryview, position: int, end: int
    ) -> tuple[RepeatedCalls, int] | None:
        """Take the requests of known forms at the front of view[position:end], and say where the next one begins.

        None when the first of them must go the usual way.
        """
        run = reader.read(view, position, end, self._forms, self._frame_bytes_max)
        if run is None:
            return None
        parts, end = run
        now_ms = self._turn.now_ms
        count = 0
        for number, (form, part) in enumerate(parts):
            if not self._stage_part(form, part, now_ms):
                # It goes the usual way, and those behind it come again.
                if not number:
                    return None
                end = part.position
                del parts[number:]
                break
            count += len(part.views)
        calls = RepeatedCalls(connection, parts, count)
        self._turn.after_writes(calls)
        return calls, end

    def _stage_part(self, form: KnownForm, part: ProducePart, now_ms: int) -> bool:
        """Give requests of one form to their leader, which takes all of them, or none."""
        leader = form.leader
        if leader is None or leader.resigned:
            leader = form.leader = self._leader(form)
            if leader is None:
                return False
        if form.acks != LEADER_ACKS and not leader.alone_is_enough:
            return False
        # A transaction of the second protocol begins in a partition with sequence 0.
        may_begin = not part.base_sequence and part.attributes & TRANSACTIONAL_FLAG
        has_agreed = bool(may_begin) and self._begins(form, part, leader)
        part.offsets = leader.stage_run(part, part, now_ms, has_agreed=has_agreed)
        if part.offsets:
            return True
        if not leader.takes_runs:
            # Such requests go the usual way, and end runs: not to be tried every time.
            self._forms.pop(form.head, None)
        return False

    def _begins(self, form: KnownForm, part: ProducePart, leader: PartitionLeader) -> bool:
        """Whether a transaction that is not open in the partition begins there now."""
        transactional_id = form.transactional_id
        return (
            transactional_id is not None
            and not leader.log.producers.has_open_transaction(part.producer_id, part.producer_epoch)
            and self._transactions.begins_at_once(
                form.version, transactional_id, leader, part.producer_id, part.producer_epoch
            )
        )

    def _leader(self, form: KnownForm) -> PartitionLeader | None:
        partitions = self._partitions
        led = (
            partitions.by_id.get(form.topic.topic_id)
            if form.version >= FIRST_VERSION_WITH_TOPIC_IDS
            else partitions.by_name.get(form.topic.name)
        )
        return None if led is None else led.get(form.index)
