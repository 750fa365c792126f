from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.consumer.assignment import Assignment, plus
from tidelog.groups.consumer.assignors import ASSIGNORS, assign_ranges, assign_uniformly
from tidelog.groups.consumer.readers import Reader, Readers

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)


def shared(assigned: dict[str, Assignment]) -> dict[str, dict[int, list[int]]]:
    """By member and number of the topic, in a form that reads well."""
    return {
        name: {topic.int: sorted(partitions) for topic, partitions in sorted(mine.items())}
        for name, mine in assigned.items()
    }


def counts(assigned: dict[str, Assignment]) -> dict[str, int]:
    return {name: sum(map(len, mine.values())) for name, mine in assigned.items()}


@pytest.mark.req("L5")
def test_range_gives_the_first_members_one_more_of_each_topic() -> None:
    readers = {name: Reader(frozenset({A, B})) for name in ("x", "y", "z")}

    assert shared(assign_ranges(readers, {A: 7, B: 4})) == {
        "x": {1: [0, 1, 2], 2: [0, 1]},
        "y": {1: [3, 4], 2: [2]},
        "z": {1: [5, 6], 2: [3]},
    }


@pytest.mark.req("L9")
def test_range_leaves_members_without_partitions_when_there_are_too_few() -> None:
    assigned = assign_ranges({name: Reader(frozenset({A})) for name in ("x", "y")}, {A: 1})

    assert shared(assigned) == {"x": {1: [0]}, "y": {}}


def test_range_orders_static_members_by_instance_so_that_a_restart_changes_nothing() -> None:
    before = {"m1": Reader(frozenset({A}), instance_id="b"), "m2": Reader(frozenset({A}), instance_id="a")}
    after = {"z9": Reader(frozenset({A}), instance_id="a"), "a0": Reader(frozenset({A}), instance_id="b")}

    first, second = assign_ranges(before, {A: 3}), assign_ranges(after, {A: 3})

    assert (first["m2"], first["m1"]) == (second["z9"], second["a0"])


def test_range_shares_a_topic_among_those_that_read_it() -> None:
    readers = {"x": Reader(frozenset({A})), "y": Reader(frozenset({A, B})), "z": Reader(frozenset({B}))}

    assert shared(assign_ranges(readers, {A: 2, B: 3})) == {
        "x": {1: [0]},
        "y": {1: [1], 2: [0, 1]},
        "z": {2: [2]},
    }


def test_uniform_spreads_the_partitions_of_all_topics_together() -> None:
    readers = {name: Reader(frozenset({A, B, C})) for name in ("x", "y")}

    assert counts(assign_uniformly(readers, {A: 1, B: 1, C: 1})) in ({"x": 2, "y": 1}, {"x": 1, "y": 2})
    assert sorted(counts(assign_ranges(readers, {A: 1, B: 1, C: 1})).values()) == [0, 3]


@pytest.mark.req("L7")
def test_uniform_moves_only_what_a_newcomer_needs() -> None:
    before = assign_uniformly({name: Reader(frozenset({A})) for name in ("x", "y")}, {A: 6})
    readers = {name: Reader(frozenset({A}), before.get(name, {})) for name in ("x", "y", "z")}

    after = assign_uniformly(readers, {A: 6})

    assert counts(after) == {"x": 2, "y": 2, "z": 2}
    assert all(after[name][A] < before[name][A] for name in ("x", "y"))


def test_uniform_gives_what_is_left_behind_to_those_that_have_least() -> None:
    had = {"x": {A: frozenset({0, 1, 2})}, "y": {A: frozenset({3})}}
    readers = {name: Reader(frozenset({A}), mine) for name, mine in had.items()}

    after = assign_uniformly(readers, {A: 6})

    assert after["x"][A] == {0, 1, 2}
    assert after["y"][A] == {3, 4, 5}


def test_uniform_gives_up_partitions_of_topics_that_are_gone_or_no_longer_read() -> None:
    reader = Reader(frozenset({A}), {A: frozenset({0, 9}), B: frozenset({1})})

    assert shared(assign_uniformly({"x": reader}, {A: 2})) == {"x": {1: [0, 1]}}


def test_uniform_with_different_subscriptions_is_as_even_as_they_allow() -> None:
    readers = {"x": Reader(frozenset({A})), "y": Reader(frozenset({A, B})), "z": Reader(frozenset({B, C}))}

    assert sorted(counts(assign_uniformly(readers, {A: 4, B: 2, C: 2})).values()) == [2, 3, 3]


TOPICS = [A, B, C]
SIZES = st.fixed_dictionaries({topic: st.integers(1, 7) for topic in TOPICS})
SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from(list("uvwxyz")), st.frozensets(st.sampled_from(TOPICS), max_size=3), min_size=1
)


def _check(readers: Readers, sizes: dict[UUID, int], assigned: dict[str, Assignment]) -> None:
    """Every partition that someone reads has one owner, who reads it."""
    owned: Assignment = {}
    for name, mine in assigned.items():
        assert set(mine) <= readers[name].topics
        for topic, partitions in mine.items():
            assert partitions and not partitions & owned.get(topic, frozenset())
        owned = plus(owned, mine)
    read = {topic for reader in readers.values() for topic in reader.topics}
    assert owned == {topic: frozenset(range(sizes[topic])) for topic in read}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(sizes=SIZES, steps=st.lists(SUBSCRIPTIONS, min_size=1, max_size=4))
def test_every_partition_has_one_owner_whoever_comes_and_goes(
    name: str, sizes: dict[UUID, int], steps: list[dict[str, frozenset[UUID]]]
) -> None:
    had: dict[str, Assignment] = {}
    for subscriptions in steps:
        readers = {member: Reader(topics, had.get(member, {})) for member, topics in subscriptions.items()}
        had = ASSIGNORS[name](readers, sizes)
        assert set(had) == set(readers)
        _check(readers, sizes, had)


@given(sizes=SIZES, members=st.lists(st.sampled_from(list("uvwxyz")), min_size=1, unique=True))
def test_uniform_is_even_and_stays_as_it_is(sizes: dict[UUID, int], members: list[str]) -> None:
    readers = {name: Reader(frozenset(TOPICS)) for name in members}
    assigned = assign_uniformly(readers, sizes)

    assert max(counts(assigned).values()) - min(counts(assigned).values()) <= 1
    again = assign_uniformly({name: Reader(frozenset(TOPICS), assigned[name]) for name in members}, sizes)
    assert again == assigned


@given(sizes=SIZES, before=SUBSCRIPTIONS, after=SUBSCRIPTIONS)
def test_with_different_subscriptions_nobody_could_give_one_that_would_even_out(
    sizes: dict[UUID, int], before: dict[str, frozenset[UUID]], after: dict[str, frozenset[UUID]]
) -> None:
    had = assign_uniformly({name: Reader(topics) for name, topics in before.items()}, sizes)
    readers = {name: Reader(topics, had.get(name, {})) for name, topics in after.items()}

    assigned = assign_uniformly(readers, sizes)

    load = counts(assigned)
    for rich, mine in assigned.items():
        for topic in mine:
            for poor, reader in readers.items():
                assert topic not in reader.topics or load[rich] - load[poor] <= 1
