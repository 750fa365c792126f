"""Kinds of load that take turns, pass by pass, and what one costs as a multiple of another.

What a machine does besides changes within seconds by more than what is compared. So each kind is measured for a tenth
of a second, often, in changing order; passes that lie side by side are compared, and the middle of all such ratios
counts. How far it can be trusted is told, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple, TypeVar

import msgspec

PASS_SECONDS: Final = 0.1
RESAMPLES: Final = 2_000
# The interval leaves out so much at each end.
TAIL: Final = 0.025

T = TypeVar("T")


class Pass(msgspec.Struct, frozen=True):
    """What one kind did when it was its turn."""

    lots: int
    lot_us: float
    broker_cpu_seconds: float


class Interval(NamedTuple):
    """A figure, and between what it would be in 95 of 100 runs that are as this one was (by resampling its passes)."""

    low: float
    middle: float
    high: float


def take_turns(
    kinds: Mapping[str, Callable[[float], Pass]], warm_up_seconds: float, seconds: float
) -> dict[str, list[Pass]]:
    """Have three kinds write, each for so many seconds in all."""
    for write in kinds.values():
        write(warm_up_seconds)
    passes: dict[str, list[Pass]] = {kind: [] for kind in kinds}
    for number in range(round(seconds / PASS_SECONDS)):
        for kind in order_of(list(kinds), number):
            passes[kind].append(kinds[kind](PASS_SECONDS))
    return passes


def times_of(one: Sequence[Pass], other: Sequence[Pass]) -> Interval:
    """The time of a lot as a multiple of that of another kind."""
    return _middle([mine.lot_us / its.lot_us for mine, its in zip(one, other, strict=True)])


def _middle(values: Sequence[float]) -> Interval:
    dice = random.Random(len(values))
    medians = sorted(median(dice.choices(values, k=len(values))) for _ in range(RESAMPLES))
    cut = int(RESAMPLES * TAIL)
    return Interval(medians[cut], median(values), medians[-1 - cut])


def lot_us(passes: Sequence[Pass]) -> float:
    return median(each.lot_us for each in passes)


def broker_cpu_us(passes: Sequence[Pass]) -> float:
    """Of a lot. The kernel counts in ticks that are not much shorter than a pass: only many passes say something."""
    return sum(each.broker_cpu_seconds for each in passes) / sum(each.lots for each in passes) * 1e6


def order_of(kinds: Sequence[T], number: int) -> list[T]:
    """In which order three kinds have their turns: each comes as often behind each of the others, since what one leaves
    to be done, pages to be written to the disk, is paid by the next."""
    first, second, third = kinds
    return [second, first, third] if number % 2 else [first, second, third]
