"""Times in the patterns of Java's SimpleDateFormat, as far as commands use them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

_LETTERS: Final = re.compile(r"'([^']*)'|([A-Za-z])\2*")


def show_java_date(moment: datetime, pattern: str) -> str:
    """A time in a pattern such as "yyyy-MM-dd HH:mm:ss:SSS". ValueError for a letter that is not known."""
    return _LETTERS.sub(lambda found: _shown(moment, found[0]), pattern)


def _shown(moment: datetime, letters: str) -> str:
    if letters.startswith("'"):
        return letters[1:-1] or "'"
    numbers = {
        "y": moment.year,
        "M": moment.month,
        "d": moment.day,
        "H": moment.hour,
        "h": moment.hour % 12 or 12,
        "m": moment.minute,
        "s": moment.second,
        "S": moment.microsecond // 1000,
    }
    letter = letters[0]
    if letter == "y" and len(letters) == 2:
        return f"{moment.year % 100:02d}"
    if letter == "M" and len(letters) >= 3:
        return moment.strftime("%b" if len(letters) == 3 else "%B")
    if letter == "E":
        return moment.strftime("%a" if len(letters) < 4 else "%A")
    if letter == "a":
        return moment.strftime("%p")
    if letter not in numbers:
        raise ValueError(f"Illegal pattern character '{letter}'")
    return str(numbers[letter]).zfill(len(letters))
