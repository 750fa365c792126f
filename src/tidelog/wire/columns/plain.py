"""What the kernel is given where it is not compiled, in place of what Cython and C have. Only it asks."""

from __future__ import annotations

from typing import Any, Final

compiled: Final = False


def copy(out: Any, position: int, buffer: Any, start: int, length: int) -> None:
    """Copy bytes from one place to another."""
    out[position : position + length] = buffer[start : start + length]
