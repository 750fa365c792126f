"""The order of things within a turn."""

from __future__ import annotations

import pytest

from tidelog.broker.turn import Turn


class Recorded:
    """A turn, and what happened in it."""

    def __init__(self) -> None:
        self.turn = Turn(lambda _: None, 1 << 20, lambda: 0)
        self.seen: list[str] = []


class Partition:
    """Its write is acknowledged by an answer, which may have something else to write."""

    def __init__(
        self,
        bench: Recorded,
        name: str,
        answers: Client | None = None,
        then: Partition | None = None,
    ) -> None:
        self._bench, self._name, self._answers, self._then = bench, name, answers, then

    def write_staged(self) -> None:
        self._bench.seen.append(f"write {self._name}")
        if self._answers is not None:
            self._bench.turn.flush(self._answers)
        if self._then is not None:
            self._bench.turn.write(self._then)


class Markers:
    """What is written when the answers have left, for which nobody waits."""

    def __init__(self, bench: Recorded) -> None:
        self._bench = bench

    def do_late(self) -> None:
        self._bench.seen.append("write marker")


class Client:
    def __init__(self, bench: Recorded, name: str, *, has_backlog: bool = False) -> None:
        self._bench, self._name, self.has_backlog = bench, name, has_backlog

    def flush(self) -> None:
        self._bench.seen.append(f"send to {self._name}")


def test_what_came_is_written_before_anybody_is_answered() -> None:
    bench = Recorded()
    bench.turn.begin()
    bench.turn.write(Partition(bench, "a", Client(bench, "one")))
    bench.turn.write(Partition(bench, "b", Client(bench, "two")))
    bench.turn.settle()
    assert bench.seen == ["write a", "write b", "send to one", "send to two"]


@pytest.mark.parametrize("has_backlog", [False, True])
def test_who_is_answered_waits_for_later_writes_only_if_more_of_its_requests_are_here(has_backlog: bool) -> None:
    bench = Recorded()
    marker = Partition(bench, "marker")
    bench.turn.begin()
    bench.turn.write(Partition(bench, "decision", Client(bench, "producer", has_backlog=has_backlog), then=marker))
    bench.turn.settle()
    sent, written = "send to producer", "write marker"
    assert bench.seen == ["write decision", *((written, sent) if has_backlog else (sent, written))]


def test_what_is_late_is_written_in_the_same_turn_behind_the_answers() -> None:
    bench = Recorded()
    bench.turn.begin()
    bench.turn.later(Markers(bench))
    bench.turn.write(Partition(bench, "records", Client(bench, "producer")))
    bench.turn.settle()
    assert bench.seen == ["write records", "send to producer", "write marker"]


def test_who_cannot_wait_has_what_is_late_written_too() -> None:
    bench = Recorded()
    bench.turn.begin()
    bench.turn.later(Markers(bench))
    bench.turn.write_now()
    assert bench.seen == ["write marker"]
