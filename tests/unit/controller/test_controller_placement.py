from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.placement import Loads, alternate_racks, place
from tidelog.metadata.image import BrokerRegistration
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId


def broker(number: int, rack: str | None = None, *, fenced: bool = False) -> BrokerRegistration:
    return BrokerRegistration(NodeId(number), 0, UUID(int=number), {}, rack=rack, fenced=fenced)


def spread(counts: Counter[NodeId], nodes: int) -> int:
    """By how much the busiest of so many nodes exceeds the idlest."""
    return max(counts.values()) - (min(counts.values()) if len(counts) == nodes else 0)


@pytest.mark.req("G4", "S2")
@given(brokers=st.integers(1, 12), partitions=st.integers(1, 60), data=st.data())
def test_leaders_and_replicas_of_a_topic_are_even_over_the_brokers(
    brokers: int, partitions: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, brokers))

    placed = place(map(broker, range(brokers)), partitions, factor, Loads())

    assert all(len(set(replicas)) == len(replicas) == factor for replicas in placed)
    assert spread(Counter(replicas[0] for replicas in placed), brokers) <= 1
    assert spread(Counter(node for replicas in placed for node in replicas), brokers) <= 1


@pytest.mark.req("G4")
@given(brokers=st.integers(1, 9), topics=st.lists(st.integers(1, 7), min_size=1, max_size=20))
def test_leaders_of_many_topics_together_are_even_over_the_brokers(brokers: int, topics: list[int]) -> None:
    loads = Loads()

    placed = [
        replicas for partitions in topics for replicas in place(map(broker, range(brokers)), partitions, 1, loads)
    ]

    assert spread(Counter(replicas[0] for replicas in placed), brokers) <= 1


@pytest.mark.req("G4")
@given(st.integers(1, 9), st.integers(1, 20), st.integers(1, 20))
def test_partitions_added_later_keep_the_leaders_even(brokers: int, first: int, more: int) -> None:
    loads = Loads()
    placed = place(map(broker, range(brokers)), first, 1, loads)

    placed += place(map(broker, range(brokers)), more, 1, loads, present=placed)

    assert spread(Counter(replicas[0] for replicas in placed), brokers) <= 1


@given(racks=st.lists(st.integers(1, 4), min_size=1, max_size=5), partitions=st.integers(1, 30), data=st.data())
def test_replicas_of_a_partition_are_on_as_many_racks_as_there_are(
    racks: list[int], partitions: int, data: st.DataObject
) -> None:
    brokers = [
        broker(number * 10 + member, rack=f"rack-{number}")
        for number, size in enumerate(racks)
        for member in range(size)
    ]
    rack_of = {node.broker_id: node.rack for node in brokers}
    factor = data.draw(st.integers(1, len(brokers)))

    placed = place(brokers, partitions, factor, Loads())

    for replicas in placed:
        assert len({rack_of[node] for node in replicas}) == min(factor, len(racks))
    assert spread(Counter(replicas[0] for replicas in placed), len(brokers)) <= 1


def test_when_a_leader_fails_its_partitions_go_to_different_brokers() -> None:
    placed = place(map(broker, range(4)), 12, 2, Loads())

    assert len({second for first, second in placed if first == 0}) == 3


def test_neighbours_in_the_ring_are_of_different_racks() -> None:
    ring = alternate_racks([broker(1, "a"), broker(2, "a"), broker(3, "b"), broker(4, "b"), broker(5, "c")])

    assert [node.broker_id for node in ring] == [1, 3, 5, 2, 4]


def test_a_fenced_broker_leads_nothing_and_follows_only_when_needed() -> None:
    brokers = [broker(1), broker(2), broker(3, fenced=True)]

    assert all(3 not in replicas for replicas in place(brokers, 6, 2, Loads()))
    assert {replicas[2] for replicas in place(brokers, 6, 3, Loads())} == {3}


@pytest.mark.parametrize(
    ("brokers", "factor"),
    [
        pytest.param([broker(1)], 2, id="more replicas than brokers"),
        pytest.param([], 1, id="no broker"),
        pytest.param([broker(1, fenced=True)], 1, id="all fenced"),
    ],
)
def test_an_impossible_replication_factor_is_refused(brokers: list[BrokerRegistration], factor: int) -> None:
    with pytest.raises(ProtocolError) as refused:
        place(brokers, 1, factor, Loads())

    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
