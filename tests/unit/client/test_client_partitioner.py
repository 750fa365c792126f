"""Which partition a record goes to."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python  # type: ignore[import-untyped]

from tidelog.client.core.partitioner import StickyPartitioner, murmur2, partition_of_key
from tidelog.model.ids import TopicName

TOPIC = TopicName("topic")


@pytest.mark.req("I3")
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_the_java_client(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=64))
def test_murmur2_is_that_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF


@given(st.binary(), st.integers(1, 1000))
def test_a_key_has_one_partition_of_those_there_are(key: bytes, partitions: int) -> None:
    chosen = partition_of_key(key, partitions)
    assert 0 <= chosen < partitions
    assert chosen == partition_of_key(key, partitions)


def test_records_without_a_key_stay_with_a_partition_until_it_had_its_bytes() -> None:
    partitioner = StickyPartitioner(choose=lambda count: 0, sticky_bytes=100)
    chosen = [partitioner.partition(TOPIC, None, 40, 3) for _ in range(6)]
    assert chosen == [0, 0, 0, 1, 1, 1]


def test_a_sticky_partition_is_followed_by_any_other_but_never_by_itself() -> None:
    numbers = iter([1, 0, 1, 0, 1])
    partitioner = StickyPartitioner(choose=lambda count: next(numbers), sticky_bytes=1)
    assert [partitioner.partition(TOPIC, None, 1, 3) for _ in range(5)] == [1, 0, 2, 0, 2]


def test_each_topic_has_a_sticky_partition_of_its_own() -> None:
    numbers = iter([2, 1])
    partitioner = StickyPartitioner(choose=lambda count: next(numbers), sticky_bytes=100)
    assert partitioner.partition(TopicName("a"), None, 10, 3) == 2
    assert partitioner.partition(TopicName("b"), None, 10, 3) == 1
    assert partitioner.partition(TopicName("a"), None, 10, 3) == 2


def test_a_topic_of_one_partition_needs_no_choice() -> None:
    def never(count: int) -> int:
        raise AssertionError(count)

    partitioner = StickyPartitioner(never, sticky_bytes=1)
    assert Counter(partitioner.partition(TOPIC, None, 5, 1) for _ in range(4)) == {0: 4}


def test_a_sticky_partition_that_is_gone_is_left() -> None:
    partitioner = StickyPartitioner(choose=lambda count: count - 1, sticky_bytes=1000)
    assert partitioner.partition(TOPIC, None, 1, 8) == 7
    assert partitioner.partition(TOPIC, None, 1, 2) == 1
