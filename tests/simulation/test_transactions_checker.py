"""The judge of histories of transactions, tried on histories with a fault that was planted."""

from __future__ import annotations

import pytest

from harness.transaction_history import Attempt, History, Outcome, check_all_ended
from harness.transaction_two_phase import Decided, Outside, check_nothing_in_doubt
from harness.transaction_world import CALM, Violation, World

ID = "id-0"


@pytest.fixture
def history() -> History:
    return History()


def attempt(history: History, outcome: Outcome, *partitions: int, has_offset: bool = False) -> Attempt:
    """A transaction with two records in each partition."""
    made = history.begin(ID)
    made.outcome = outcome
    made.has_offset = has_offset
    for partition in partitions:
        made.written[partition] = [made.value(partition, 0), made.value(partition, 1)]
    return made


def all_of(*attempts: Attempt) -> dict[int, list[str]]:
    return {
        partition: [value for made in attempts for value in made.written.get(partition, ())] for partition in (0, 1)
    }


def refused(history: History, read: dict[int, list[str]], offset: int = -1) -> str:
    with pytest.raises(Violation) as violation:
        history.check(read, {ID: offset})
    return str(violation.value)


def test_a_history_in_which_all_is_well_passes(history: History) -> None:
    committed = attempt(history, Outcome.COMMITTED, 0, 1, has_offset=True)
    attempt(history, Outcome.ABORTED, 0)
    attempt(history, Outcome.UNKNOWN, 1)
    attempt(history, Outcome.OPEN, 0)

    history.check(all_of(committed), {ID: committed.number})


def test_a_commit_that_was_not_answered_may_be_there_or_not(history: History) -> None:
    unknown = attempt(history, Outcome.UNKNOWN, 0, 1, has_offset=True)

    history.check(all_of(unknown), {ID: unknown.number})
    history.check({0: [], 1: []}, {ID: -1})


@pytest.mark.parametrize("outcome", [Outcome.ABORTED, Outcome.OPEN])
def test_an_aborted_read_is_found(history: History, outcome: Outcome) -> None:
    assert "aborted" in refused(history, all_of(attempt(history, outcome, 0)))


@pytest.mark.parametrize("outcome", [Outcome.COMMITTED, Outcome.UNKNOWN])
def test_a_torn_transaction_is_found(history: History, outcome: Outcome) -> None:
    made = attempt(history, outcome, 0, 1)

    assert "torn" in refused(history, {0: made.written[0], 1: []})
    assert "torn" in refused(history, {0: made.written[0], 1: made.written[1][:1]})


def test_a_transaction_that_is_torn_from_its_offset_is_found(history: History) -> None:
    made = attempt(history, Outcome.UNKNOWN, 0, has_offset=True)

    assert "torn" in refused(history, all_of(made), offset=-1)
    assert "torn" in refused(history, {0: [], 1: []}, offset=made.number)


def test_a_duplicate_is_found(history: History) -> None:
    made = attempt(history, Outcome.COMMITTED, 0)

    assert "twice" in refused(history, {0: [*made.written[0], made.written[0][0]], 1: []})


def test_a_lost_write_is_found(history: History) -> None:
    attempt(history, Outcome.COMMITTED, 0, 1)

    assert "lost" in refused(history, {0: [], 1: []})


def test_records_in_another_order_are_found(history: History) -> None:
    made = attempt(history, Outcome.COMMITTED, 0)

    assert "order" in refused(history, {0: made.written[0][::-1], 1: []})


def test_a_record_that_was_never_acknowledged_is_found(history: History) -> None:
    made = attempt(history, Outcome.COMMITTED, 0)

    assert "never acknowledged" in refused(history, {0: made.written[0], 1: [made.value(1, 0)]})


def test_a_stale_offset_is_found(history: History) -> None:
    first = attempt(history, Outcome.COMMITTED, 0, has_offset=True)
    second = attempt(history, Outcome.COMMITTED, 0, has_offset=True)

    assert "stale" in refused(history, all_of(first, second), offset=first.number)


def test_a_transaction_that_never_ends_is_found() -> None:
    world = World(1, CALM, strict=False)
    assert world.broker is not None
    check_all_ended(world.broker)
    producers = world.broker.partitions.by_name["data"][0].log.producers  # type: ignore[index]
    producers._open[0] = 1  # type: ignore[index, assignment]
    leader = world.broker.partitions.by_name["data"][0]  # type: ignore[index]
    leader.high_watermark = 1  # type: ignore[assignment]

    with pytest.raises(Violation, match="hangs"):
        check_all_ended(world.broker)


def test_a_decision_that_nobody_carried_out_is_found(history: History) -> None:
    outside = Outside()
    check_nothing_in_doubt(outside)
    run = outside.register(ID)
    outside.decide(ID, run, Decided(attempt(history, Outcome.UNKNOWN, 0), (1, 0), commit=True))

    with pytest.raises(Violation, match="in doubt"):
        check_nothing_in_doubt(outside)
