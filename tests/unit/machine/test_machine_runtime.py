from __future__ import annotations

from collections.abc import Sequence

import pytest

from tidelog.machine.runtime import RECORDS_PER_BATCH_MAX, Result, Role, Runtime
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset


class Total:
    """A machine that adds up its records."""

    def __init__(self) -> None:
        self.value = 0
        self.offset = Offset(-1)
        self.epoch = LeaderEpoch(-1)

    def replay(self, records: Sequence[int], offset: Offset, epoch: LeaderEpoch) -> None:
        self.value += sum(records)
        self.offset = offset
        self.epoch = epoch


class MemoryJournal:
    """A journal that keeps batches in a list and commits when the test says so."""

    def __init__(self) -> None:
        self.batches: list[tuple[LeaderEpoch, list[int]]] = []
        self.end = Offset(0)
        self.failure: Exception | None = None

    def append(self, records: Sequence[int], epoch: LeaderEpoch) -> Offset:
        if self.failure is not None:
            raise self.failure
        self.batches.append((epoch, list(records)))
        self.end = Offset(self.end + len(records))
        return self.end


def add(amount: int) -> Result[int, int] | object:
    def command(total: Total) -> Result[int, int]:
        return Result([amount], total.value + amount)

    return command


def read(total: Total) -> Result[int, int]:
    return Result([], total.value)


class Desk:
    """A leading runtime over a journal, and the answers it gave."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.runtime: Runtime[Total, int] = Runtime(Total, self.journal)
        self.runtime.lead(LeaderEpoch(1), Offset(0))
        self.answers: list[object] = []

    def submit(self, command: object) -> None:
        self.runtime.submit(command, self._note)  # type: ignore[arg-type]

    def _note(self, answer: object) -> None:
        self.answers.append(answer.code if isinstance(answer, ProtocolError) else answer)


def test_a_reply_waits_until_its_records_are_committed() -> None:
    desk = Desk()

    desk.submit(add(5))
    assert desk.runtime.machine.value == 5
    assert desk.answers == []
    desk.runtime.committed(Offset(1))

    assert desk.answers == [5]


def test_the_next_command_sees_what_is_not_committed_yet() -> None:
    desk = Desk()

    desk.submit(add(5))
    desk.submit(add(6))
    desk.runtime.committed(Offset(2))

    assert desk.answers == [5, 11]


def test_a_read_answers_only_when_all_it_could_have_seen_is_committed() -> None:
    desk = Desk()
    desk.submit(add(5))

    desk.submit(read)
    assert desk.answers == []
    desk.runtime.committed(Offset(1))

    assert desk.answers == [5, 5]


def test_a_read_answers_at_once_when_all_is_committed() -> None:
    desk = Desk()

    desk.submit(read)

    assert desk.answers == [0]


def test_answers_come_in_the_order_of_commands() -> None:
    desk = Desk()
    for amount in range(1, 6):
        desk.submit(add(amount))

    desk.runtime.committed(Offset(3))
    assert desk.answers == [1, 3, 6]
    desk.runtime.committed(Offset(2))
    assert desk.answers == [1, 3, 6]
    desk.runtime.committed(Offset(5))

    assert desk.answers == [1, 3, 6, 10, 15]


def test_a_refusal_writes_nothing_and_waits_for_what_it_may_have_read() -> None:
    def refuse(total: Total) -> Result[int, int]:
        raise ProtocolError(ErrorCode.TOPIC_ALREADY_EXISTS)

    desk = Desk()
    desk.submit(add(5))
    desk.submit(refuse)

    assert desk.answers == []
    desk.runtime.committed(Offset(1))

    assert desk.answers == [5, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert desk.journal.batches == [(1, [5])]


def test_a_fault_in_a_command_raises_and_leaves_everything_as_it_was() -> None:
    def fail(total: Total) -> Result[int, int]:
        raise ZeroDivisionError

    desk = Desk()
    with pytest.raises(ZeroDivisionError):
        desk.submit(fail)
    desk.submit(read)

    assert desk.answers == [0]
    assert desk.journal.batches == []


def test_a_journal_that_cannot_write_leaves_the_machine_unchanged() -> None:
    desk = Desk()
    desk.journal.failure = OSError("disk full")
    with pytest.raises(OSError, match="disk full"):
        desk.submit(add(5))
    desk.journal.failure = None
    desk.submit(read)

    assert desk.answers == [0]


def test_a_journal_whose_epoch_is_over_refuses_the_command() -> None:
    desk = Desk()
    desk.journal.failure = ProtocolError(ErrorCode.NOT_CONTROLLER)

    desk.submit(add(5))

    assert desk.answers == [ErrorCode.NOT_CONTROLLER]
    assert desk.runtime.machine.value == 0


def test_on_resigning_who_waits_is_told_and_the_machine_begins_anew() -> None:
    desk = Desk()
    desk.submit(add(5))
    desk.submit(add(6))
    desk.runtime.committed(Offset(1))

    desk.runtime.resign()
    desk.submit(add(7))

    assert desk.answers == [5, ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER]
    assert desk.runtime.machine.value == 0
    assert desk.runtime.role is Role.FOLLOWING


def test_a_coordinator_says_that_it_is_not_the_coordinator() -> None:
    runtime: Runtime[Total, int] = Runtime(Total, MemoryJournal(), not_leading=ErrorCode.NOT_COORDINATOR)
    answers: list[object] = []

    runtime.submit(read, answers.append)

    assert isinstance(answers[0], ProtocolError)
    assert answers[0].code is ErrorCode.NOT_COORDINATOR


def test_after_resigning_it_leads_again_from_what_was_committed() -> None:
    desk = Desk()
    desk.submit(add(5))
    desk.runtime.resign()

    desk.runtime.load([5], Offset(0), LeaderEpoch(1))
    desk.runtime.load([30, 7], Offset(2), LeaderEpoch(2))
    desk.journal.end = Offset(4)
    desk.runtime.lead(LeaderEpoch(3), Offset(4))
    desk.submit(add(1))
    desk.runtime.committed(Offset(5))

    assert desk.answers == [ErrorCode.NOT_CONTROLLER, 43]
    assert desk.journal.batches[-1] == (3, [1])
    assert (desk.runtime.machine.offset, desk.runtime.machine.epoch) == (4, 3)


def test_records_of_one_result_are_one_batch() -> None:
    desk = Desk()

    desk.submit(lambda total: Result(list(range(RECORDS_PER_BATCH_MAX)), None))

    assert [len(batch) for _, batch in desk.journal.batches] == [RECORDS_PER_BATCH_MAX]


def test_a_result_that_need_not_be_atomic_is_cut_into_batches_and_answered_after_the_last() -> None:
    desk = Desk()

    desk.submit(lambda total: Result([1] * (RECORDS_PER_BATCH_MAX + 1), "done", atomic=False))
    desk.runtime.committed(Offset(RECORDS_PER_BATCH_MAX))
    assert desk.answers == []
    desk.runtime.committed(Offset(RECORDS_PER_BATCH_MAX + 1))

    assert [len(batch) for _, batch in desk.journal.batches] == [RECORDS_PER_BATCH_MAX, 1]
    assert desk.answers == ["done"]


def test_a_journal_may_commit_within_append_and_an_answer_may_submit_the_next_command() -> None:
    class Immediate(MemoryJournal):
        def append(self, records: Sequence[int], epoch: LeaderEpoch) -> Offset:
            end = super().append(records, epoch)
            desk.runtime.committed(end)
            return end

    desk = Desk()
    desk.journal = Immediate()
    desk.runtime = Runtime(Total, desk.journal)
    desk.runtime.lead(LeaderEpoch(1), Offset(0))
    seen: list[object] = []

    def answered(reply: object) -> None:
        seen.append(reply)
        if len(seen) < 2000:
            desk.runtime.submit(lambda total: Result([1], total.value + 1), answered)

    desk.runtime.submit(lambda total: Result([1], total.value + 1), answered)

    assert seen == list(range(1, 2001))


def test_what_is_safe_once_it_is_written_is_answered_at_once() -> None:
    desk = Desk()
    assert desk.runtime.run_at_once(add(3), lambda records: desk.journal.append(records, LeaderEpoch(1))) == 3  # type: ignore[arg-type]
    assert desk.runtime.machine.value == 3
    assert desk.runtime.is_settled and desk.runtime.committed_end == 1


def test_what_cannot_be_written_at_once_has_changed_nothing() -> None:
    desk = Desk()

    def full(_: Sequence[int]) -> Offset:
        raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR)

    with pytest.raises(ProtocolError):
        desk.runtime.run_at_once(add(3), full)  # type: ignore[arg-type]
    assert desk.runtime.machine.value == 0
    assert desk.runtime.is_settled
    assert desk.runtime.run_at_once(read, full) == 0, "the next command runs"
