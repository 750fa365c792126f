"""Regular expressions that clients send: RE2's syntax, matched against whole names in linear time.

Members of groups subscribe to topics with them, and transactions are listed by them. Python's own `re` backtracks: one
client with a bad pattern could stop the whole broker. Here a pattern becomes an automaton (`pattern_parser.py` makes
the steps) that reads each character of a name once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tidelog.model.pattern_parser import ASCII_COUNT, BEGIN, END, OTHER, SPLIT, Parsed, parse

# Patterns that are kept compiled; members of a group, and groups, share theirs.
COMPILED_PATTERNS_KEPT_MAX: Final = 512
# Sets of steps that an automaton remembers before it begins anew.
REMEMBERED_STATES_MAX: Final = 2_000


class Pattern:
    """A compiled pattern. It learns its automaton from the names that it is asked about."""

    def __init__(self, text: str, parsed: Parsed) -> None:
        self.text = text
        self._steps, self._named = parsed
        self._accept = len(self._steps) - 1
        self._start = self._closure({0}, at_start=True)
        # State -> character -> next state; a state is the set of steps that may be next.
        self._next: dict[frozenset[int], dict[str, frozenset[int]]] = {}

    def matches(self, name: str) -> bool:
        """Whether the whole of a name matches."""
        if len(self._next) > REMEMBERED_STATES_MAX:
            self._next.clear()
        state = self._start
        for character in name:
            known = self._next.setdefault(state, {})
            after = known.get(character)
            if after is None:
                after = known[character] = self._read(state, character)
            if not after:
                return False
            state = after
        return self._accept in self._closure(set(state), at_start=not name, at_end=True)

    def _read(self, state: frozenset[int], character: str) -> frozenset[int]:
        code = ord(character)
        bit = 1 << (code if code < ASCII_COUNT else self._named.get(character, OTHER))
        moved = set()
        for number in state:
            step = self._steps[number]
            if isinstance(step, int) and step & bit:
                moved.add(number + 1)
        return self._closure(moved)

    def _closure(self, reached: set[int], *, at_start: bool = False, at_end: bool = False) -> frozenset[int]:
        """All steps that can be reached without reading a character."""
        waiting = list(reached)
        while waiting:
            number = waiting.pop()
            step = self._steps[number]
            following: tuple[int, ...] = ()
            if isinstance(step, tuple):
                kind, targets = step
                if kind == SPLIT:
                    following = targets
                elif (kind == BEGIN and at_start) or (kind == END and at_end):
                    following = (number + 1,)
            for target in following:
                if target not in reached:
                    reached.add(target)
                    waiting.append(target)
        return frozenset(reached)


@lru_cache(maxsize=COMPILED_PATTERNS_KEPT_MAX)
def compile_re2(text: str) -> Pattern:
    """A pattern; ValueError with what is wrong in it."""
    return Pattern(text, parse(text))
