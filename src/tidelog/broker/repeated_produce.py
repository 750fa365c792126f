"""The short way of produce requests whose form was seen before: only their records are new.

Most requests of most producers are such, and those that came together are taken together. It is for acks=1, and for
acks=all where this broker alone is in sync, to a log that is not synced first; for all else, and for every error, it
steps aside and the request goes the usual way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from tidelog.broker.call import AnswersInOrder, Call
from tidelog.model.ids import Offset
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.compiler import Output
from tidelog.wire.frames import encode_response
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceRequest
from tidelog.wire.produce_form import ProduceForm, head_of
from tidelog.wire.produce_run import RunReader, run_reader

LEADER_ACKS: Final = 1
ALL_ACKS: Final = -1
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
# About 1 KB each. When they are too many, they are forgotten and learned anew, but not all the time.
FORMS_MAX: Final = 4096
FORGET_INTERVAL_MS: Final = 60_000


class RepeatedCalls(Call):
    """Some calls of one form, answered together: all is known but their offsets, and whether the write succeeds."""

    __slots__ = (
        "_correlation_ids",
        "_form",
        "base_offset",
        "error_code",
        "error_message",
        "log_append_time_ms",
        "log_start_offset",
        "offsets",
    )

    def __init__(self, connection: AnswersInOrder, form: ProduceForm, correlation_ids: list[int]) -> None:
        self.connection = connection
        self.output = None
        self._form = form
        self._correlation_ids = correlation_ids
        self.offsets: Sequence[Offset] = ()
        # What the leader says of the run as a whole.
        self.error_code = 0
        self.error_message: str | None = None
        self.base_offset = self.log_append_time_ms = self.log_start_offset = -1

    @property
    def count(self) -> int:
        return len(self._correlation_ids)

    def after_writes(self) -> None:
        """The write is done, or has failed and said so here."""
        form = self._form
        if self.error_code:
            answer = PartitionProduceResponse(form.index, self.error_code, -1, error_message=self.error_message)
            output = Output()
            for correlation_id in self._correlation_ids:
                output += encode_response(correlation_id, form.response(answer), form.version)
            self.output = output
        else:
            self.output = form.answers(self._correlation_ids, self.offsets, self.log_start_offset)
        self.connection.answered(self)


class Turn(Protocol):
    def after_writes(self, request: RepeatedCalls) -> None: ...


class RepeatedProduce:
    """The forms that all connections have sent."""

    def __init__(self, partitions: LedPartitions, turn: Turn, now_ms: Callable[[], int], frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._partitions = partitions
        self._turn = turn
        self._now_ms = now_ms
        self._forms: dict[bytes, ProduceForm] = {}
        self._forgot_ms = -FORGET_INTERVAL_MS

    def learn(self, version: int, frame: memoryview, request: ProduceRequest) -> RunReader | None:
        """Remember the form of a request that went the usual way; gives the reader for the next ones."""
        if request.acks != LEADER_ACKS and request.acks != ALL_ACKS:
            return None
        head = head_of(version, frame, request)
        if head is None:
            return None
        if head not in self._forms:
            if len(self._forms) >= FORMS_MAX and not self._forget():
                return None
            self._forms[head] = ProduceForm(version, request)
        return run_reader(len(head))

    def _forget(self) -> bool:
        now_ms = self._now_ms()
        if now_ms - self._forgot_ms < FORGET_INTERVAL_MS:
            return False
        self._forgot_ms = now_ms
        self._forms.clear()
        return True

    def stage(
        self, connection: AnswersInOrder, reader: RunReader, view: memoryview, position: int, end: int
    ) -> tuple[RepeatedCalls, int] | None:
        """Take the requests of one known form at the front of view[position:end], and say where the next one begins.

        None when the first of them must go the usual way.
        """
        head = reader.head(view, position, end)
        form = self._forms.get(head) if head is not None else None
        if head is None or form is None:
            return None
        partitions = self._partitions
        led = (
            partitions.by_id.get(form.topic.topic_id)
            if form.version >= FIRST_VERSION_WITH_TOPIC_IDS
            else partitions.by_name.get(form.topic.name)
        )
        leader = None if led is None else led.get(form.index)
        if leader is None or not leader.takes_runs or (form.acks != LEADER_ACKS and not leader.alone_is_enough):
            return None
        config = leader.config
        timestamp_max = self._now_ms() + config.message_timestamp_after_max_ms
        run = reader.read(
            view,
            position,
            end,
            form.version,
            head,
            self._frame_bytes_max,
            config.max_message_bytes,
            timestamp_max,
        )
        if run is None:
            return None
        calls = RepeatedCalls(connection, form, run.correlation_ids)
        offsets = leader.stage_run(run.batches, run.batches_bytes, calls)
        if offsets is None:
            return None
        if len(offsets) <= len(run.batches):
            run.cut(len(offsets) - 1)
        calls.offsets = offsets
        self._turn.after_writes(calls)
        return calls, run.end
