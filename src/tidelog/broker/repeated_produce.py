"""The short way of a produce request whose form was seen before: only its records are new.

Most requests of most producers are such. It is for acks=1, and for acks=all where this broker alone is in sync, to a
log that is not synced first; for all else, and for every error, it steps aside and the request goes the usual way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from tidelog.broker.call import AnswersInOrder, Call
from tidelog.model.errors import ProtocolError
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.frames import RequestHeader
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceRequest
from tidelog.wire.produce_form import TAIL_BYTES, HeadReader, ProduceForm, head_of, head_reader

PRODUCE: Final = 0
LEADER_ACKS: Final = 1
ALL_ACKS: Final = -1
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
# About 1 KB each. When they are too many, they are forgotten and learned anew, but not all the time.
FORMS_MAX: Final = 4096
FORGET_INTERVAL_MS: Final = 60_000


class RepeatedCall(Call):
    """A call whose answer is known but for its offsets: the leader puts them into the call itself."""

    __slots__ = (
        "_correlation_id",
        "_form",
        "base_offset",
        "error_code",
        "error_message",
        "log_append_time_ms",
        "log_start_offset",
    )

    def __init__(self, connection: AnswersInOrder, form: ProduceForm, correlation_id: int) -> None:
        self.connection = connection
        self.output = None
        self._form = form
        self._correlation_id = correlation_id
        self.error_code = 0
        self.error_message: str | None = None
        self.base_offset = self.log_append_time_ms = self.log_start_offset = -1

    def after_writes(self) -> None:
        """The write is done, or has failed and said so here."""
        form = self._form
        if self.error_code:
            self.header = RequestHeader(PRODUCE, form.version, self._correlation_id, None, 0)
            answer = PartitionProduceResponse(form.index, self.error_code, -1, error_message=self.error_message)
            self.answer(form.response(answer))
            return
        self.output = form.answer(
            self._correlation_id, self.base_offset, self.log_append_time_ms, self.log_start_offset
        )
        self.connection.answered(self)


class Turn(Protocol):
    def after_writes(self, request: RepeatedCall) -> None: ...


class RepeatedProduce:
    """The forms that all connections have sent."""

    def __init__(self, partitions: LedPartitions, turn: Turn, now_ms: Callable[[], int]) -> None:
        self._partitions = partitions
        self._turn = turn
        self._now_ms = now_ms
        self._forms: dict[bytes, ProduceForm] = {}
        self._forgot_ms = -FORGET_INTERVAL_MS

    def learn(self, version: int, frame: memoryview, request: ProduceRequest) -> HeadReader | None:
        """Remember the form of a request that went the usual way; gives the reader for the next one."""
        if request.acks != LEADER_ACKS and request.acks != ALL_ACKS:
            return None
        head = head_of(version, frame, request)
        if head is None:
            return None
        if head not in self._forms:
            if len(self._forms) >= FORMS_MAX and not self._forget():
                return None
            self._forms[head] = ProduceForm(version, request)
        return head_reader(len(head))

    def _forget(self) -> bool:
        now_ms = self._now_ms()
        if now_ms - self._forgot_ms < FORGET_INTERVAL_MS:
            return False
        self._forgot_ms = now_ms
        self._forms.clear()
        return True

    def stage(self, connection: AnswersInOrder, reader: HeadReader, frame: memoryview) -> Call | None:
        """Take a request of a known form; None when it must go the usual way."""
        read = reader.read(frame)
        if read is None:
            return None
        version, correlation_id, head, start = read
        form = self._forms.get(head)
        if form is None or form.version != version:
            return None
        partitions = self._partitions
        led = (
            partitions.by_id.get(form.topic.topic_id)
            if version >= FIRST_VERSION_WITH_TOPIC_IDS
            else partitions.by_name.get(form.topic.name)
        )
        leader = None if led is None else led.get(form.index)
        if leader is None or leader.syncs_first or (form.acks != LEADER_ACKS and not leader.alone_is_enough):
            return None
        call = RepeatedCall(connection, form, correlation_id)
        try:
            leader.stage(frame[start:-TAIL_BYTES], call, self._now_ms())
        except ProtocolError:
            return None
        self._turn.after_writes(call)
        return call
