"""Filters on partition, offset and timestamp, turned into narrower ranges, so that what they leave out is not fetched.

`batch_reader.py` calls it while Spark plans. Filters on offset and partition are kept exactly; one on the timestamp
narrows where a range begins, by the log's time index, and Spark still looks at every row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from tidelog.model.ids import Offset
from tidelog.spark.planning import Range

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What the filters leave: bounds of offsets (the second one excluded), partitions and topics, a first time."""

    offset_min: int = 0
    offset_end: int | None = None
    partitions: frozenset[int] | None = None
    topics: frozenset[str] | None = None
    timestamp_min_ms: int | None = None

    def apply(self, found: Iterable[Range]) -> list[Range]:
        """The ranges without what no row can pass from."""
        narrowed = []
        for one in found:
            if self.partitions is not None and one.partition.partition not in self.partitions:
                continue
            if self.topics is not None and one.partition.topic not in self.topics:
                continue
            end = one.end if self.offset_end is None else min(one.end, self.offset_end)
            start = max(one.start, self.offset_min)
            if start < end:
                narrowed.append(Range(one.partition, Offset(start), Offset(end)))
        return narrowed


@dataclass(slots=True)
class Narrowed:
    """What was understood, and the filters that Spark still has to apply."""

    narrowing: Narrowing = field(default_factory=Narrowing)
    rest: list[Filter] = field(default_factory=list)


def narrow(filters: Iterable[Filter]) -> Narrowed:
    """Understand what can be; all filters must hold."""
    result = Narrowed()
    for one in filters:
        narrowing, exact = _narrowed(result.narrowing, one)
        result.narrowing = narrowing
        if not exact:
            result.rest.append(one)
    return result


def _narrowed(known: Narrowing, one: Filter) -> tuple[Narrowing, bool]:
    """The narrowing with one filter more, and whether it needs no second look."""
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    value: Any = getattr(one, "value", None)
    match attribute, one:
        case ("offset" | "partition" | "topic",), IsNotNull():
            return known, True  # They never are.
        case ("offset",), EqualTo() | GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
            if isinstance(value, int):
                return _offsets(known, one, value), True
        case ("partition",), EqualTo() if isinstance(value, int):
            return replace(known, partitions=_both(known.partitions, frozenset([value]))), True
        case ("partition",), In() if all(isinstance(each, int) for each in value):
            return replace(known, partitions=_both(known.partitions, frozenset(value))), True
        case ("topic",), EqualTo() if isinstance(value, str):
            return replace(known, topics=_both(known.topics, frozenset([value]))), True
        case ("topic",), In() if all(isinstance(each, str) for each in value):
            return replace(known, topics=_both(known.topics, frozenset(value))), True
        case ("timestamp",), EqualTo() | GreaterThan() | GreaterThanOrEqual() if isinstance(value, datetime):
            aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            first_ms = int(aware.timestamp() * 1000)
            return replace(known, timestamp_min_ms=max(first_ms, known.timestamp_min_ms or 0)), False
    return known, False


def _offsets(known: Narrowing, one: Filter, value: int) -> Narrowing:
    first, end = known.offset_min, known.offset_end
    match one:
        case EqualTo():
            first, end = max(first, value), value + 1 if end is None else min(end, value + 1)
        case GreaterThan():
            first = max(first, value + 1)
        case GreaterThanOrEqual():
            first = max(first, value)
        case LessThan():
            end = value if end is None else min(end, value)
        case LessThanOrEqual():
            end = value + 1 if end is None else min(end, value + 1)
    return replace(known, offset_min=first, offset_end=end)


def _both(known: frozenset[T] | None, more: frozenset[T]) -> frozenset[T]:
    return more if known is None else known & more
