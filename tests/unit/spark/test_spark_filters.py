"""Filters that become narrower ranges, and those that Spark has to apply itself."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, Not

from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.spark.filters import narrow
from tidelog.spark.planning import Range


def _range(partition: int, start: int, end: int) -> Range:
    return Range(TopicPartition(TopicName("t"), PartitionIndex(partition)), Offset(start), Offset(end))


def test_offsets_and_partitions_are_narrowed_and_need_no_second_look() -> None:
    filters: list[Filter] = [
        IsNotNull(("offset",)),
        GreaterThan(("offset",), 4),
        LessThan(("offset",), 8),
        In(("partition",), (0, 2)),
    ]

    narrowed = narrow(filters)

    assert narrowed.rest == []
    assert narrowed.narrowing.apply([_range(0, 0, 100), _range(1, 0, 100), _range(2, 6, 100), _range(2, 50, 60)]) == [
        _range(0, 5, 8),
        _range(2, 6, 8),
    ]


def test_two_filters_on_partitions_must_both_hold() -> None:
    narrowed = narrow([In(("partition",), (0, 2)), EqualTo(("partition",), 2)])

    assert narrowed.narrowing.apply([_range(0, 0, 9), _range(2, 0, 9)]) == [_range(2, 0, 9)]


def test_a_time_narrows_where_reading_begins_and_spark_still_looks_at_each_row() -> None:
    late = GreaterThanOrEqual(("timestamp",), datetime(2026, 1, 1, tzinfo=UTC))

    narrowed = narrow([late])

    assert narrowed.rest == [late]
    assert narrowed.narrowing.timestamp_min_ms == 1767225600000


def test_what_is_not_understood_stays_with_spark() -> None:
    filters: list[Filter] = [EqualTo(("value",), b"x"), Not(EqualTo(("partition",), 1)), EqualTo(("headers", "x"), 1)]

    narrowed = narrow(filters)

    assert narrowed.rest == filters
    assert narrowed.narrowing.apply([_range(1, 0, 9)]) == [_range(1, 0, 9)]
