"""What a setting is: its name, type, default, allowed values and how it may change; and text turned into its value.

The tables are in `topic_settings.py` and `broker_settings.py`. Errors are worded as Apache Kafka words them, because
people search for these sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, Protocol, TypeAlias

from tidelog.model.errors import ErrorCode, ProtocolError

SettingValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None

_COMMA: Final = re.compile(r"\s*,\s*")
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class SettingType(IntEnum):
    """The numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(Enum):
    """Where a broker's setting may be changed while it runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Rule(Protocol):
    """Which values are allowed. `str()` is the short form that Apache Kafka's documentation uses."""

    def problem(self, value: SettingValue) -> str | None:
        """Say what is wrong with a value; None when it is allowed."""
        ...


@dataclass(frozen=True, slots=True)
class Range:
    """A number from `lowest` to `highest`, both allowed, or exactly `also`."""

    lowest: float
    highest: float | None = None
    also: int | None = None

    def problem(self, value: SettingValue) -> str | None:
        assert isinstance(value, int | float)
        if self.also is not None:
            assert self.highest is not None
            fits = self.lowest <= value <= self.highest or value == self.also
            return None if fits else f"Value must be between {self.lowest} and {self.highest} or equal to {self.also}"
        if value < self.lowest:
            return f"Value must be at least {self.lowest}"
        if self.highest is not None and value > self.highest:
            return f"Value must be no more than {self.highest}"
        return None

    def __str__(self) -> str:
        shown = f"[{self.lowest},...]" if self.highest is None else f"[{self.lowest},...,{self.highest}]"
        return shown if self.also is None else f"{shown} or {self.also}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these words, or a list of nothing but these words."""

    words: tuple[str, ...]
    ignore_case: bool = False

    def problem(self, value: SettingValue) -> str | None:
        given = value if isinstance(value, tuple) else (str(value),)
        allowed = {word.lower() for word in self.words} if self.ignore_case else set(self.words)
        if all((word.lower() if self.ignore_case else word) in allowed for word in given):
            return None
        insensitive = " (case insensitive)" if self.ignore_case else ""
        return f"String must be one of{insensitive}: {', '.join(self.words)}"

    def __str__(self) -> str:
        return f"{'(case insensitive) ' if self.ignore_case else ''}[{', '.join(self.words)}]"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Text, or a list of texts, of a form that a regular expression describes and `form` says in words."""

    expression: str
    form: str

    def problem(self, value: SettingValue) -> str | None:
        given = value if isinstance(value, tuple) else (str(value),)
        return None if all(re.fullmatch(self.expression, text) for text in given) else f"Value must be {self.form}"

    def __str__(self) -> str:
        return self.form


def one_of(*words: str) -> OneOf:
    return OneOf(words)


def at_least(lowest: float) -> Range:
    return Range(lowest)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `default` is text, as a file or a command line would give it; None means "not set"."""

    name: str
    type: SettingType
    default: str | None
    rule: Rule | None = None
    help: str = ""
    mode: UpdateMode = UpdateMode.READ_ONLY
    # What a topic's setting falls back to: the first of these broker settings that is set, times its factor.
    synonyms: tuple[tuple[str, int], ...] = ()
    # Known and working, but neither described nor documented.
    is_internal: bool = False

    @property
    def is_sensitive(self) -> bool:
        """True for what must never be shown."""
        return self.type is SettingType.PASSWORD

    @property
    def field(self) -> str:
        """The name as an attribute of `TopicConfig` and `BrokerConfig`."""
        return self.name.replace(".", "_")


SIGNED_BITS: Final = {SettingType.SHORT: 16, SettingType.INT: 32, SettingType.LONG: 64}


def table(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Key settings by name; a name may be there once."""
    made: dict[str, Setting] = {}
    for setting in settings:
        assert setting.name not in made, setting.name
        made[setting.name] = setting
    return made


def invalid(name: str, value: object, problem: str) -> ProtocolError:
    """The error for a value that is not allowed."""
    return ProtocolError(ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {name}: {problem}")


def parse_value(setting: Setting, text: str | None) -> SettingValue:
    """Turn text into the setting's value, or raise INVALID_CONFIG with the key, the value and what is allowed."""
    if text is None:
        return None
    value = _convert(setting, text.strip())
    problem = setting.rule.problem(value) if setting.rule else None
    if problem is not None:
        raise invalid(setting.name, _shown(setting, value), problem)
    return value


def _shown(setting: Setting, value: SettingValue) -> str:
    if setting.is_sensitive:
        return "[hidden]"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _convert(setting: Setting, text: str) -> SettingValue:
    match setting.type:
        case SettingType.BOOLEAN:
            if text.lower() in ("true", "false"):
                return text.lower() == "true"
            raise invalid(setting.name, text, "Expected value to be either true or false")
        case SettingType.SHORT | SettingType.INT | SettingType.LONG:
            limit = 1 << SIGNED_BITS[setting.type] - 1
            if _INTEGER.fullmatch(text) and -limit <= int(text) < limit:
                return int(text)
            raise invalid(setting.name, text, f"Not a number of type {setting.type.name}")
        case SettingType.DOUBLE:
            if _DECIMAL.fullmatch(text):
                return float(text)
            raise invalid(setting.name, text, "Not a number of type DOUBLE")
        case SettingType.LIST:
            words = tuple(_COMMA.split(text)) if text else ()
            if "" in words:
                raise ProtocolError(
                    ErrorCode.INVALID_CONFIG, f"Configuration '{setting.name}' values must not be empty."
                )
            return words
        case SettingType.STRING | SettingType.CLASS | SettingType.PASSWORD:
            return text


def show_value(value: SettingValue) -> str | None:
    """The text that describes a value, as Apache Kafka writes it."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case int():
            return str(value)
        case float():
            return repr(value).upper().replace("E+", "E")
