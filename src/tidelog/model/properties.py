"""Java's .properties format, in which Kafka's configuration files are written. Never looks at what the keys mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

BLANKS: Final = " \t\f"
ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class MalformedProperties(ValueError):
    """A \\u that four hexadecimal digits do not follow: the one thing that this format does not allow."""


def read_properties(text: str) -> dict[str, str]:
    """Read keys and values; of a key that comes twice the last value counts."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Join lines that end in an odd number of backslashes with the next one; leave out comments and blank lines."""
    # Not splitlines(): it also splits at characters that are part of a value here.
    natural = iter(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    for first in natural:
        line = first.lstrip(BLANKS)
        if line in ("", "\\") or line[0] in "#!":
            continue
        while _is_continued(line):
            line = line[:-1] + next(natural, "").lstrip(BLANKS)
        yield line


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """A key ends at the first "=", ":" or blank that no backslash protects; around "=" and ":" blanks do not count."""
    position = 0
    while position < len(line) and line[position] not in "=:" + BLANKS:
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(BLANKS)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        letter = text[position]
        if letter != "\\":
            parts.append(letter)
            position += 1
            continue
        escaped = text[position + 1 : position + 2]
        if escaped == "u":
            digits = text[position + 2 : position + 6]
            if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise MalformedProperties(f"\\u{digits} is no unicode escape: four hexadecimal digits are needed.")
            parts.append(chr(int(digits, 16)))
            position += 6
        else:
            parts.append(ESCAPES.get(escaped, escaped))
            position += 2
    # Characters beyond the basic plane are written as two escapes, a surrogate pair.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
