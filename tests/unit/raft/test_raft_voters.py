"""Who votes, from which record on, and as which replica."""

from __future__ import annotations

from uuid import UUID

import pytest

from harness.raft.desk import key, voter, voter_set
from tidelog.model.ids import NO_OFFSET, NodeId, Offset
from tidelog.raft.replicas import ReplicaKey, VoterSet
from tidelog.raft.voter_history import VoterHistory


@pytest.mark.parametrize(("voters", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(voters: int, majority: int) -> None:
    assert voter_set(*range(voters)).majority == majority


def test_a_node_with_another_disk_is_another_replica() -> None:
    voters = voter_set(1, 2, 3)

    assert voters.matching(key(2)) == key(2)
    assert voters.matching(ReplicaKey(NodeId(2), UUID(int=99))) is None
    assert voters.matching(key(4)) is None


def test_voters_of_a_setting_stand_for_whatever_disk_their_node_has() -> None:
    static = ReplicaKey(NodeId(2))

    assert static.means(key(2))
    assert not key(2).means(static)
    assert not static.means(key(3))


def test_a_set_is_the_same_in_whatever_order_it_is_named() -> None:
    assert voter_set(3, 1, 2) == voter_set(1, 2, 3)
    assert hash(voter_set(3, 1, 2)) == hash(voter_set(1, 2, 3))
    assert voter_set(3, 1, 2).keys == (key(1), key(2), key(3))


def test_voters_are_added_removed_and_described_anew() -> None:
    voters = voter_set(1, 2)

    assert voters.with_voter(voter(3)) == voter_set(1, 2, 3)
    assert voters.without(key(1)) == voter_set(2)
    assert voters.with_voter(voter(2, port=1)) != voters
    assert voters.with_voter(voter(2, port=1)).keys == voters.keys


def test_only_one_that_is_alone_decides_alone() -> None:
    assert voter_set(1).is_only(key(1))
    assert not voter_set(1).is_only(key(2))
    assert not voter_set(1, 2).is_only(key(1))
    assert not VoterSet().is_only(key(1))


def test_the_newest_record_counts_until_it_is_cut_off() -> None:
    history = VoterHistory(voter_set(1))
    history.add(Offset(5), voter_set(1, 2))
    history.add(Offset(9), voter_set(1, 2, 3))

    assert (history.latest, history.latest_offset) == (voter_set(1, 2, 3), 9)

    history.truncate(Offset(9))

    assert (history.latest, history.latest_offset) == (voter_set(1, 2), 5)

    history.truncate(Offset(0))

    assert (history.latest, history.latest_offset) == (voter_set(1), NO_OFFSET)


def test_a_snapshot_names_the_voters_of_its_end() -> None:
    history = VoterHistory(voter_set(1))
    history.add(Offset(5), voter_set(1, 2))

    assert history.at(Offset(5)) == voter_set(1)
    assert history.at(Offset(6)) == voter_set(1, 2)

    history.forget_before(Offset(6))

    assert history.at(Offset(6)) == voter_set(1, 2)


def test_a_snapshot_takes_the_place_of_all_records() -> None:
    history = VoterHistory(voter_set(1), dynamic=True)
    history.add(Offset(5), voter_set(1, 2))

    history.replace(Offset(20), voter_set(2, 3))

    assert (history.latest, history.latest_offset) == (voter_set(2, 3), 19)
    assert history.at(Offset(20)) == voter_set(2, 3)


def test_a_snapshot_without_voters_leaves_those_of_the_setting() -> None:
    history = VoterHistory(voter_set(1, 2))

    history.replace(Offset(20), None)

    assert history.latest == voter_set(1, 2)
    assert not history.is_dynamic


def test_voters_are_dynamic_when_they_are_known_from_records() -> None:
    history = VoterHistory(voter_set(1))

    assert not history.is_dynamic
    assert VoterHistory(voter_set(1), dynamic=True).is_dynamic

    history.add(Offset(5), voter_set(1, 2))

    assert history.is_dynamic


def test_one_whose_removal_may_be_undone_may_still_count() -> None:
    history = VoterHistory(voter_set(1, 2, 3))
    history.add(Offset(5), voter_set(1, 2, 3, 4))
    history.add(Offset(9), voter_set(1, 2))

    assert history.may_count(key(3), committed_end=Offset(0))
    assert history.may_count(key(4), committed_end=Offset(6))
    assert not history.may_count(key(4), committed_end=Offset(10))
    assert not history.may_count(key(5), committed_end=Offset(0))
