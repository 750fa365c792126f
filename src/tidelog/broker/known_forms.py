"""The forms of requests that connections have sent, for the short ways of produce and of commits: so many, no more.

When they are too many all are forgotten, and learned anew by those who still send them; but not all the time.
"""

from __future__ import annotations

from typing import Final, TypeVar

KeyT = TypeVar("KeyT")
FormT = TypeVar("FormT")

# One or two KB each.
FORMS_MAX: Final = 4096
FORGET_INTERVAL_MS: Final = 60_000


class KnownForms(dict[KeyT, FormT]):
    """Forms by what they are known by."""

    __slots__ = ("_forgot_ms",)

    def __init__(self) -> None:
        self._forgot_ms = -FORGET_INTERVAL_MS

    def has_room(self, now_ms: int) -> bool:
        """Whether one more may be learned, if need be by forgetting all others."""
        if len(self) < FORMS_MAX:
            return True
        if now_ms - self._forgot_ms < FORGET_INTERVAL_MS:
            return False
        self._forgot_ms = now_ms
        self.clear()
        return True
