from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.elections import Rules, change
from tidelog.metadata.image import LeaderRecoveryState, PartitionRegistration
from tidelog.metadata.replay import changed
from tidelog.model.ids import NO_NODE, LeaderEpoch, NodeId, PartitionIndex

TOPIC = UUID(int=7)
FIRST = PartitionIndex(0)
UNCLEAN = Rules(unclean=True)
ELIGIBLE = Rules(eligible_leaders=True, min_insync_replicas=2)


def nodes(*ids: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))


def partition(
    isr: tuple[NodeId, ...], leader: int, replicas: tuple[NodeId, ...] = nodes(1, 2, 3), **more: tuple[NodeId, ...]
) -> PartitionRegistration:
    return PartitionRegistration(replicas, isr, NodeId(leader), LeaderEpoch(4), 9, **more)


def after(
    before: PartitionRegistration, live: tuple[NodeId, ...], rules: Rules = Rules(), **how: object
) -> PartitionRegistration:
    record = change(TOPIC, FIRST, before, live, rules, **how)  # type: ignore[arg-type]
    return before if record is None else changed(before, record)


@pytest.mark.req("G1", "F9")
def test_when_the_leader_dies_the_next_live_member_of_the_isr_leads_in_a_new_epoch() -> None:
    moved = after(partition(nodes(3, 2, 1), leader=1), live=nodes(2, 3), without=nodes(1))

    assert (moved.leader, moved.leader_epoch) == (2, 5)
    assert moved.isr == nodes(3, 2)


@pytest.mark.req("G1")
def test_a_replica_outside_the_isr_does_not_lead() -> None:
    moved = after(partition(nodes(1, 3), leader=1), live=nodes(2, 3), without=nodes(1))

    assert moved.leader == 3


def test_a_follower_that_dies_leaves_the_isr_and_the_leader_keeps_its_epoch() -> None:
    moved = after(partition(nodes(1, 2, 3), leader=1), live=nodes(1, 3), without=nodes(2))

    assert (moved.leader, moved.leader_epoch, moved.isr) == (1, 4, nodes(1, 3))


@pytest.mark.req("G3")
def test_when_all_are_dead_nobody_leads_and_the_last_of_the_isr_is_remembered() -> None:
    dead = after(partition(nodes(2), leader=2), live=(), without=nodes(2))

    assert (dead.leader, dead.leader_epoch, dead.isr) == (NO_NODE, 5, nodes(2))


@pytest.mark.req("G3")
def test_the_last_of_the_isr_leads_again_when_it_returns_and_no_other_before_it() -> None:
    dead = partition(nodes(2), leader=NO_NODE)

    assert after(dead, live=nodes(1, 3)).leader == NO_NODE
    assert after(dead, live=nodes(1, 2, 3)).leader == 2


@pytest.mark.req("G2")
def test_any_live_replica_leads_only_if_unclean_election_is_allowed() -> None:
    before = partition(nodes(1), leader=1)

    assert after(before, live=nodes(3), without=nodes(1)).leader == NO_NODE
    unclean = after(before, live=nodes(3), without=nodes(1), rules=UNCLEAN)

    assert (unclean.leader, unclean.isr) == (3, nodes(3))
    assert unclean.leader_recovery_state is LeaderRecoveryState.RECOVERING


def test_a_live_leader_in_the_isr_stays() -> None:
    assert change(TOPIC, FIRST, partition(nodes(1, 2), leader=2), nodes(1, 2, 3), Rules()) is None


def test_the_preferred_leader_takes_over_when_asked_for_and_in_sync() -> None:
    behind = partition(nodes(2, 3), leader=2)
    in_sync = partition(nodes(2, 3, 1), leader=2)

    assert after(behind, live=nodes(1, 2, 3), preferred=True) is behind
    assert after(in_sync, live=nodes(1, 2, 3), preferred=True).leader == 1


def test_who_leaves_a_small_isr_stays_eligible() -> None:
    two = after(partition(nodes(1, 2, 3), leader=1), live=nodes(1, 2), without=nodes(3), rules=ELIGIBLE)
    assert two.eligible_leader_replicas == ()

    one = after(two, live=nodes(2), without=nodes(1), rules=ELIGIBLE)
    assert (one.leader, one.isr, one.eligible_leader_replicas) == (2, nodes(2), nodes(1))

    none = after(one, live=(), without=nodes(2), rules=ELIGIBLE)
    assert (none.leader, none.isr) == (NO_NODE, ())
    assert (none.eligible_leader_replicas, none.last_known_elr) == (nodes(1, 2), nodes(2))

    back = after(none, live=nodes(1), rules=ELIGIBLE)
    assert (back.leader, back.isr, back.eligible_leader_replicas) == (1, nodes(1), nodes(2))
    assert back.leader_recovery_state is LeaderRecoveryState.RECOVERED
    assert back.last_known_elr == ()


def test_without_anyone_eligible_the_last_known_leader_recovers_the_partition() -> None:
    lost = partition((), leader=NO_NODE, last_known_elr=nodes(2))

    assert after(lost, live=nodes(1, 3), rules=ELIGIBLE) is lost
    found = after(lost, live=nodes(2), rules=ELIGIBLE)

    assert (found.leader, found.isr) == (2, nodes(2))
    assert found.leader_recovery_state is LeaderRecoveryState.RECOVERING


@pytest.mark.req("G1", "G2", "G3")
@given(
    replicas=st.permutations([1, 2, 3, 4]).map(lambda order: nodes(*order[:3])),
    steps=st.lists(st.tuples(st.integers(1, 4), st.booleans()), max_size=30),
    rules=st.builds(Rules, st.booleans(), st.booleans(), st.integers(1, 3)),
)
def test_whatever_comes_and_goes_the_leader_is_live_and_in_sync(
    replicas: tuple[NodeId, ...], steps: list[tuple[int, bool]], rules: Rules
) -> None:
    live = set(replicas)
    now = partition(replicas, leader=replicas[0], replicas=replicas)
    for node, goes in steps:
        epoch, leader = now.leader_epoch, now.leader
        if goes:
            live.discard(NodeId(node))
            now = after(now, tuple(live), rules, without=nodes(node))
        else:
            live.add(NodeId(node))
            now = after(now, tuple(live), rules)
        assert set(now.isr) <= set(replicas)
        assert now.isr or rules.eligible_leaders
        assert not set(now.isr) & set(now.eligible_leader_replicas)
        assert now.leader == NO_NODE or (now.leader in now.isr and now.leader in live)
        assert now.leader != NO_NODE or not live & set(now.isr)
        assert now.leader_epoch == epoch + (now.leader != leader)
