"""Python source under construction: lines, indentation, fresh names and the values that the code refers to.

Used by the two code generators, `read_source.py` and `write_source.py`; knows nothing of messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any

Namespace = dict[str, Any]


class Source:
    """Lines of one function, and the namespace it will be executed in."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self._lines: list[str] = []
        self._depth = 0
        self._names: dict[str, int] = dict.fromkeys([*namespace, "len"], 1)
        self._constants: dict[int, str] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Indent what follows under `header`."""
        self.line(header)
        self._depth += 1
        begun = len(self._lines)
        yield
        if len(self._lines) == begun:
            self.line("pass")
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A variable name that the function does not use yet."""
        used = self._names.get(stem, 0)
        self._names[stem] = used + 1
        return stem if used == 0 and not iskeyword(stem) else f"{stem}_{used + 1}"

    def constant(self, stem: str, value: Any) -> str:
        """The name under which the function finds `value`; it begins with an underscore, as no field does."""
        known = self._constants.get(id(value))
        if known is not None:
            return known
        name, number = f"_{stem}", 1
        while name in self.namespace:
            number += 1
            name = f"_{stem}_{number}"
        self.namespace[name] = value
        self._constants[id(value)] = name
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
