"""Several answers that become one, when the last of them has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

PartT = TypeVar("PartT")


class Collected(Generic[PartT]):
    """`done` gets the parts in the order of their numbers. With nothing to collect it is called at once."""

    def __init__(self, count: int, done: Callable[[list[PartT]], None]) -> None:
        self._parts: dict[int, PartT] = {}
        self._count = count
        self._done = done
        if not count:
            done([])

    def taker(self, number: int) -> Callable[[PartT], None]:
        """Where part `number` is to be delivered."""

        def take(part: PartT) -> None:
            self._parts[number] = part
            if len(self._parts) == self._count:
                self._done([self._parts[index] for index in range(self._count)])

        return take
