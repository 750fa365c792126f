"""Kinds of load that take turns: who comes when, and what is made of their passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from bench.alternation import PASS_SECONDS, Pass, broker_cpu_us, order_of, take_turns, times_of


def passes(*lot_us: float) -> list[Pass]:
    return [Pass(10, each, 0.01) for each in lot_us]


def test_passes_are_compared_with_their_neighbours_so_that_what_slows_all_down_counts_for_nothing() -> None:
    slow_later = [100.0] * 50 + [300.0] * 50
    compared = times_of(passes(*(1.1 * each for each in slow_later)), passes(*slow_later))
    assert round(compared.middle, 6) == round(compared.low, 6) == round(compared.high, 6) == 1.1


def test_the_interval_has_the_figure_in_it_and_is_wide_when_passes_differ() -> None:
    calm = times_of(passes(*(100 + number % 3 for number in range(99))), passes(*[100.0] * 99))
    wild = times_of(passes(*(100 + 10 * (number % 9) for number in range(99))), passes(*[100.0] * 99))
    for each in (calm, wild):
        assert each.low <= each.middle <= each.high
    assert wild.high - wild.low > calm.high - calm.low
    assert calm == times_of(passes(*(100 + number % 3 for number in range(99))), passes(*[100.0] * 99))


def test_each_kind_comes_as_often_behind_each_of_the_others() -> None:
    kinds = ["plain", "idempotent", "transactions"]
    turns = [kind for number in range(60) for kind in order_of(kinds, number)]
    assert Counter(turns) == dict.fromkeys(kinds, 60)
    behind = Counter(pairwise(turns))
    assert len(behind) == 6, "and none behind itself"
    assert max(behind.values()) - min(behind.values()) <= 1


def test_the_cpu_of_a_lot_is_that_of_all_passes() -> None:
    assert broker_cpu_us([Pass(10, 1.0, 0.0), Pass(30, 1.0, 0.02)]) == 500


def test_every_kind_writes_for_as_long_as_the_others() -> None:
    written: dict[str, list[float]] = {"a": [], "b": [], "c": []}

    def writer(kind: str) -> Callable[[float], Pass]:
        def write(seconds: float) -> Pass:
            written[kind].append(seconds)
            return Pass(1, 1.0, 0.0)

        return write

    taken = take_turns({kind: writer(kind) for kind in written}, 2.0, 1.0)
    assert {kind: len(passes) for kind, passes in taken.items()} == {"a": 10, "b": 10, "c": 10}
    assert written["a"] == written["b"] == written["c"] == [2.0, *[PASS_SECONDS] * 10]
