"""A mapping under change: reads fall through to the old mapping, the first write copies it, once.

Used by `metadata/replay.py`, so that a burst of records builds each mapping of an image at most once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Draft(Generic[K, V]):
    """The next state of a mapping, and which keys were written."""

    __slots__ = ("_before", "_copy", "touched")

    def __init__(self, before: Mapping[K, V]) -> None:
        self._before = before
        self._copy: dict[K, V] | None = None
        self.touched: set[K] = set()

    def get(self, key: K) -> V | None:
        return self.finish().get(key)

    def put(self, key: K, value: V) -> None:
        self._writable()[key] = value
        self.touched.add(key)

    def remove(self, key: K) -> V | None:
        """Take a key out and return what it held."""
        if self.get(key) is None:
            return None
        self.touched.add(key)
        return self._writable().pop(key)

    def finish(self) -> Mapping[K, V]:
        """The mapping as it now is; the old one itself when nothing was written."""
        return self._before if self._copy is None else self._copy

    def changed(self) -> frozenset[K]:
        """The keys whose value is another than at first."""
        after = self.finish()
        return frozenset(key for key in self.touched if self._before.get(key) != after.get(key))

    def _writable(self) -> dict[K, V]:
        if self._copy is None:
            self._copy = dict(self._before)
        return self._copy
