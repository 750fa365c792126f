"""RE2's syntax to the steps of an automaton. Raises ValueError for what is not in it; called by `patterns.py` alone.

A step is a set of characters to read, or a tuple: go on at one of several steps, or only at the begin or end of the
name. The last step accepts. A set is a number with one bit for each ASCII character, one for each other character that
the pattern names, and one that stands for all characters that it does not; where it has "all but", it is negative. What
needs to look back or ahead (references, look-arounds, word boundaries) is not RE2, or not worth it for names; nor are
ranges that end beyond ASCII, and Unicode's classes.
"""

from __future__ import annotations

import string
import sys
from typing import Final, NamedTuple

SPLIT: Final = "split"
BEGIN: Final = "begin"
END: Final = "end"

Step = int | tuple[str, tuple[int, ...]]
Steps = list[Step]
# Parts of an automaton before they are placed: targets are relative to the part's first step.
_Part = list[Step]

STEPS_MAX: Final = 20_000
REPEATS_MAX: Final = 1_000
GROUPS_NESTED_MAX: Final = 200

ASCII_COUNT: Final = 128
ASCII: Final = (1 << ASCII_COUNT) - 1
# The bit of every character beyond ASCII that a pattern does not name. It is in sets only as "all but".
OTHER: Final = ASCII_COUNT
LAST_CHARACTER: Final = chr(sys.maxunicode)


def _bits(characters: str) -> int:
    mask = 0
    for character in characters:
        assert ord(character) < ASCII_COUNT
        mask |= 1 << ord(character)
    return mask


_DIGITS: Final = _bits(string.digits)
_WORD: Final = _bits(string.ascii_letters + string.digits + "_")
_SPACE: Final = _bits("\t\n\f\r ")
_CLASSES: Final = {
    "d": _DIGITS,
    "D": ~_DIGITS,
    "w": _WORD,
    "W": ~_WORD,
    "s": _SPACE,
    "S": ~_SPACE,
}
_NAMED_CLASSES: Final = {
    "alnum": _bits(string.ascii_letters + string.digits),
    "alpha": _bits(string.ascii_letters),
    "ascii": ASCII,
    "blank": _bits("\t "),
    "digit": _DIGITS,
    "lower": _bits(string.ascii_lowercase),
    "punct": _bits(string.punctuation),
    "space": _bits(string.whitespace),
    "upper": _bits(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": _bits(string.hexdigits),
}
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ANY: Final = ~_bits("\n")


class Parsed(NamedTuple):
    steps: Steps
    # The bits of the characters beyond ASCII that the pattern names.
    named: dict[str, int]


def parse(text: str) -> Parsed:
    """The steps of a pattern."""
    parser = _Parser(text)
    part = parser.alternatives(depth=0)
    if not parser.at_end:
        raise ValueError("unexpected )")
    # The step that accepts reads nothing.
    return Parsed([*_placed(part, 0), 0], parser.named)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.any_case = False
        self.named: dict[str, int] = {}
        # Between \\Q and \\E every character stands for itself.
        self.quoting = False

    @property
    def at_end(self) -> bool:
        return self.position == len(self.text)

    def peek(self, *options: str) -> str | None:
        return next((option for option in options if self.text.startswith(option, self.position)), None)

    def take(self, *options: str) -> str | None:
        found = self.peek(*options)
        self.position += len(found or "")
        return found

    def next(self) -> str:
        if self.at_end:
            raise ValueError("it ends too early")
        self.position += 1
        return self.text[self.position - 1]

    def alternatives(self, depth: int) -> _Part:
        if depth > GROUPS_NESTED_MAX:
            raise ValueError("groups are nested too deeply")
        outer_case = self.any_case
        branches = [self.sequence(depth)]
        while self.take("|"):
            branches.append(self.sequence(depth))
        self.any_case = outer_case
        joined = branches.pop()
        for branch in reversed(branches):
            joined = _either(branch, joined)
        return joined

    def sequence(self, depth: int) -> _Part:
        part: _Part = []
        while not self.at_end and (self.quoting or self.peek("|", ")") is None):
            part = _checked([*part, *_placed(self.repeated(self.atom(depth)), len(part))])
        return part

    def repeated(self, part: _Part) -> _Part:
        seen = False
        while not self.quoting:
            bounds = self.bounds()
            if bounds is None:
                return part
            if seen:
                raise ValueError("bad repetition operator")
            seen = True
            # Whether it takes as few or as many as it can is all the same for the whole name.
            self.take("?")
            part = _repeat(part, *bounds)
        return part

    def bounds(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        operator = self.take(*simple)
        if operator is not None:
            return simple[operator]
        close = self.text.find("}", self.position)
        if self.peek("{") is None or close < 0:
            return None
        low, comma, high = self.text[self.position + 1 : close].partition(",")
        if not low.isdecimal() or (high and not high.isdecimal()):
            return None  # Then the brace stands for itself.
        self.position = close + 1
        least = int(low)
        most = least if not comma else int(high) if high else None
        if least > REPEATS_MAX or (most is not None and (most > REPEATS_MAX or most < least)):
            raise ValueError("invalid repeat count")
        return least, most

    def atom(self, depth: int) -> _Part:
        if self.take("\\Q"):
            self.quoting = not self.take("\\E")
            return []
        character = self.next()
        if self.quoting:
            self.quoting = not self.take("\\E")
            return [self.literal(character)]
        match character:
            case "(":
                return self.group(depth)
            case "[":
                return [self.character_class()]
            case ".":
                return [_ANY]
            case "^":
                return [(BEGIN, ())]
            case "$":
                return [(END, ())]
            case "*" | "+" | "?":
                raise ValueError(f"missing argument to repetition operator {character}")
            case "\\":
                return self.escape()
            case _:
                return [self.literal(character)]

    def group(self, depth: int) -> _Part:
        outer_case = self.any_case
        if self.take("?"):
            if self.take("P<", "<"):
                name = self.text[self.position :].partition(">")[0]
                if not name.isidentifier():
                    raise ValueError("invalid named capture")
                self.position += len(name) + 1
            elif not self.flags():
                return []  # Flags alone hold until the end of the group around them.
        part = self.alternatives(depth + 1)
        if not self.take(")"):
            raise ValueError("missing closing )")
        self.any_case = outer_case
        return part

    def flags(self) -> bool:
        """Read flags; whether a group follows them."""
        on = True
        while True:
            match self.next():
                case "i":
                    self.any_case = on
                case "m" | "s" | "U":
                    pass  # A name is one line, and how much an operator takes does not matter.
                case "-":
                    on = False
                case ":":
                    return True
                case ")":
                    return False
                case other:
                    raise ValueError(f"invalid or unsupported group syntax (?{other}")

    def escape(self) -> _Part:
        character = self.next()
        if character in _CLASSES:
            return [_CLASSES[character]]
        if character == "A":
            return [(BEGIN, ())]
        if character == "z":
            return [(END, ())]
        return [self.literal(self.escaped(character))]

    def escaped(self, character: str) -> str:
        """The one character that an escape stands for."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "x":
            if self.take("{"):
                digits, _, _ = self.text[self.position :].partition("}")
                self.position += len(digits) + 1
            else:
                digits = self.next() + self.next()
            return chr(_code_point(digits))
        if character.isalnum():
            raise ValueError(f"invalid escape sequence \\{character}")
        return character

    def literal(self, character: str) -> int:
        if not self.any_case:
            return self.bit(character)
        cases = [each for each in (character.lower(), character.upper()) if len(each) == 1]
        return self.bit(character) | self.bit(cases[0]) | self.bit(cases[-1]) if cases else self.bit(character)

    def bit(self, character: str) -> int:
        code = ord(character)
        return 1 << (code if code < ASCII_COUNT else self.named.setdefault(character, OTHER + 1 + len(self.named)))

    def character_class(self) -> int:
        negated = self.take("^") is not None
        mask = 0
        first = True
        while first or self.peek("]") is None:
            first = False
            if self.take("[:"):
                mask |= self.named_class()
                continue
            character = self.next()
            if character == "\\" and self.peek(*_CLASSES) is not None:
                mask |= _CLASSES[self.next()]
                continue
            low = self.escaped(self.next()) if character == "\\" else character
            high = low
            if self.peek("-") and self.peek("-]") is None:
                self.next()
                high = self.next()
                high = self.escaped(self.next()) if high == "\\" else high
            if high < low:
                raise ValueError("invalid character class range")
            mask |= self.spanned(low, high)
        self.next()
        return ~mask if negated else mask

    def spanned(self, low: str, high: str) -> int:
        if low == high:
            return self.literal(low)
        mask = 0
        for code in range(ord(low), min(ord(high) + 1, ASCII_COUNT)):
            mask |= self.literal(chr(code))
        if ord(high) < ASCII_COUNT:
            return mask
        if high != LAST_CHARACTER or ord(low) > ASCII_COUNT:
            raise ValueError("a range of characters ends beyond ASCII, which is not supported")
        return mask | ~ASCII

    def named_class(self) -> int:
        negated = self.take("^") is not None
        name, _, _ = self.text[self.position :].partition(":]")
        if name not in _NAMED_CLASSES:
            raise ValueError("invalid character class range")
        self.position += len(name) + 2
        return ~_NAMED_CLASSES[name] if negated else _NAMED_CLASSES[name]


def _code_point(digits: str) -> int:
    code = int(digits, 16)
    if not 0 <= code <= sys.maxunicode:
        raise ValueError(f"invalid escape sequence \\x{{{digits}}}")
    return code


def _checked(part: _Part) -> _Part:
    if len(part) > STEPS_MAX:
        raise ValueError("expression is too large")
    return part


def _placed(part: _Part, at: int) -> _Part:
    """A part whose first step stands at a position."""
    if at == 0:
        return part
    return [(step[0], tuple(target + at for target in step[1])) if isinstance(step, tuple) else step for step in part]


def _either(left: _Part, right: _Part) -> _Part:
    after_left = len(left) + 2
    end = after_left + len(right)
    return _checked([(SPLIT, (1, after_left)), *_placed(left, 1), (SPLIT, (end,)), *_placed(right, after_left)])


def _repeat(part: _Part, least: int, most: int | None) -> _Part:
    if len(part) * max(least, most or 1) > STEPS_MAX:
        raise ValueError("expression is too large")
    result: _Part = []
    for _ in range(least):
        result += _placed(part, len(result))
    if most is None:
        at = len(result)
        loop: _Part = [(SPLIT, (1, len(part) + 2)), *_placed(part, 1), (SPLIT, (0,))]
        return _checked([*result, *_placed(loop, at)])
    for _ in range(most - least):
        at = len(result)
        optional: _Part = [(SPLIT, (1, len(part) + 1)), *_placed(part, 1)]
        result += _placed(optional, at)
    return _checked(result)
