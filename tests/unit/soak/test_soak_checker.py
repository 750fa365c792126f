"""The checker of histories finds every kind of broken promise that is planted, and nothing where all are kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from soak import PROJECT
from soak.checker import Verdict, Violation, check
from soak.history import Acked, Event, Failed, HistoryWriter, Name, Seen, Sent, Whole, name_in, read_history, value_of

TOPIC = "t"
Log = list[tuple[str, int]]


def history_of(
    log: Log,
    *,
    acked: Log | None = None,
    seen: list[tuple[int, str, int]] | None = None,
    sent: dict[str, int] | None = None,
) -> list[Event]:
    """A history in which the log holds these records at the end, and all else is as it should be unless told."""
    highest = sent or {}
    if sent is None:
        for producer, number in log:
            highest[producer] = max(number, highest.get(producer, 0))
    places = {record: offset for offset, record in reversed(list(enumerate(log)))}
    events: list[Event] = [Sent(producer, number) for producer, number in highest.items()]
    events += [Acked(TOPIC, 0, places[record], *record) for record in (log if acked is None else acked)]
    live = [(offset, *record) for offset, record in enumerate(log)] if seen is None else seen
    events += [Seen("live", TOPIC, 0, *row) for row in live]
    events += [Seen("last", TOPIC, 0, offset, *record) for offset, record in enumerate(log)]
    events.append(Whole("last", TOPIC, 0, 0, len(log)))
    return events


def kinds(verdict: Verdict) -> set[Violation]:
    return set(verdict.counted())


GOOD: Log = [("a", 0), ("b", 0), ("a", 1), ("a", 3), ("b", 1)]


def test_a_history_that_keeps_every_promise_has_no_findings() -> None:
    verdict = check(history_of(GOOD))

    assert verdict.findings == []
    assert (verdict.sent, verdict.acknowledged, verdict.seen, verdict.in_the_log) == (6, 5, 10, 5)


def test_an_acknowledged_record_that_is_not_in_the_log_is_lost() -> None:
    events = history_of(GOOD) + [Acked(TOPIC, 0, 9, "a", 2)]

    assert kinds(check(events)) == {Violation.LOST}


def test_a_record_that_was_given_up_may_be_in_the_log_or_not() -> None:
    events = history_of(GOOD, acked=GOOD[:-1]) + [Failed("a", 2, "timed out"), Failed("b", 1, "timed out")]

    assert check(events).findings == []


def test_an_acknowledged_record_at_another_offset_is_misplaced() -> None:
    events = history_of(GOOD, acked=GOOD[1:]) + [Acked(TOPIC, 0, 3, "a", 0)]

    assert kinds(check(events)) == {Violation.MISPLACED}


def test_two_records_acknowledged_at_one_offset_are_found() -> None:
    events = history_of(GOOD) + [Acked(TOPIC, 0, 1, "a", 0)]

    assert kinds(check(events)) == {Violation.MISPLACED}


def test_a_record_that_is_stored_twice_is_a_duplicate() -> None:
    assert kinds(check(history_of([*GOOD, ("a", 3)]))) == {Violation.DUPLICATE}


def test_records_of_a_producer_out_of_order_are_found() -> None:
    swapped = [GOOD[2], GOOD[1], GOOD[0], *GOOD[3:]]

    assert kinds(check(history_of(swapped))) == {Violation.DISORDER}


def test_a_consumer_that_saw_another_record_at_an_offset_disagrees() -> None:
    seen = [(offset, *record) for offset, record in enumerate(GOOD)]
    seen[3] = (3, "a", 2)

    assert kinds(check(history_of(GOOD, seen=seen))) == {Violation.DISAGREEMENT}


def test_two_readers_of_the_whole_log_that_differ_disagree() -> None:
    other = [GOOD[0], ("a", 2), *GOOD[2:]]
    events = history_of(GOOD, sent={"a": 3, "b": 1})
    events += [Seen("other", TOPIC, 0, offset, *record) for offset, record in enumerate(other)]
    events.append(Whole("other", TOPIC, 0, 0, len(other)))

    assert kinds(check(events)) == {Violation.DISAGREEMENT}


def test_a_record_that_a_consumer_saw_and_that_is_gone_has_vanished() -> None:
    seen = [(offset, *record) for offset, record in enumerate(GOOD)] + [(5, "a", 2)]

    assert kinds(check(history_of(GOOD, seen=seen))) == {Violation.VANISHED}


def test_a_consumer_that_was_not_given_a_record_in_between_skipped_it() -> None:
    seen = [(offset, *record) for offset, record in enumerate(GOOD) if offset != 2]

    assert kinds(check(history_of(GOOD, seen=seen))) == {Violation.SKIPPED}


def test_a_consumer_may_begin_late_and_end_early() -> None:
    seen = [(offset, *record) for offset, record in enumerate(GOOD)][1:4]

    assert check(history_of(GOOD, seen=seen)).findings == []


def test_an_offset_without_a_record_is_not_skipped() -> None:
    events: list[Event] = [Sent("a", 1)]
    for consumer in ("live", "last"):
        events += [Seen(consumer, TOPIC, 0, 0, "a", 0), Seen(consumer, TOPIC, 0, 2, "a", 1)]
    events.append(Whole("last", TOPIC, 0, 0, 3))

    assert check(events).findings == []


def test_a_consumer_that_is_given_an_offset_twice_went_backwards() -> None:
    seen = [(offset, *record) for offset, record in enumerate(GOOD)]
    seen.insert(3, seen[2])

    assert kinds(check(history_of(GOOD, seen=seen))) == {Violation.BACKWARDS}


def test_a_record_that_nobody_sent_is_invented() -> None:
    assert kinds(check(history_of(GOOD, sent={"a": 2, "b": 1}))) == {Violation.INVENTED}


def test_a_partition_that_nobody_read_at_the_end_is_not_called_good() -> None:
    events = history_of(GOOD) + [Acked(TOPIC, 1, 0, "a", 2)]

    assert kinds(check(events)) == {Violation.UNREAD}


def test_what_retention_has_deleted_is_not_lost() -> None:
    events: list[Event] = [Sent("a", 3)]
    events += [Acked(TOPIC, 0, number, "a", number) for number in range(4)]
    events += [Seen("live", TOPIC, 0, number, "a", number) for number in range(4)]
    events += [Seen("last", TOPIC, 0, number, "a", number) for number in range(2, 4)]
    events.append(Whole("last", TOPIC, 0, 2, 4))

    assert check(events).findings == []


@given(
    st.lists(st.sampled_from("abc"), min_size=2, max_size=40).flatmap(
        lambda producers: st.tuples(st.just(producers), st.integers(0, len(producers) - 1))
    )
)
def test_any_record_taken_out_of_any_log_is_missed(drawn: tuple[list[str], int]) -> None:
    producers, victim = drawn
    log = [(producer, producers[:index].count(producer)) for index, producer in enumerate(producers)]
    events = history_of(log)
    assert check(events).findings == []

    without = [
        event
        for event in events
        if not (isinstance(event, Seen) and event.consumer == "last" and event.offset == victim)
    ]

    assert kinds(check(without)) >= {Violation.LOST, Violation.VANISHED}


def test_a_value_says_which_record_it_is() -> None:
    assert name_in(value_of(Name("p.1", 17))) == Name("p.1", 17)


def test_the_program_reads_files_and_ends_with_1_when_a_promise_is_broken(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    with good.open("wb") as file:
        for event in history_of(GOOD):
            HistoryWriter(file).write(event)
        file.write(b'["acked","t",0')  # Its writer was killed here.
    with bad.open("wb") as file:
        HistoryWriter(file).write(Acked(TOPIC, 0, 9, "a", 2))

    assert list(read_history([good])) == history_of(GOOD)
    assert _run(good).returncode == 0
    failed = _run(good, bad)
    assert failed.returncode == 1
    assert "an acknowledged record is not in the log: a.2" in failed.stdout


def _run(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "soak", "check", *map(str, files)]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
