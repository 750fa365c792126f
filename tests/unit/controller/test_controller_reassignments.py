from __future__ import annotations

import pytest

from harness.controller_desk import Desk
from tidelog.controller.isr_changes import WantedIsr, alter_partitions
from tidelog.controller.leader_changes import rebalance
from tidelog.controller.reassignments import WantedReplicas, reassign
from tidelog.controller.topics import NewTopic, create
from tidelog.metadata.image import PartitionRegistration
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionIndex


def desk() -> Desk:
    made = Desk(nodes=(1, 2, 3, 4, 5))
    made.run(create, [NewTopic("tides", assignments=[(0, [1, 2, 3])])])
    return made


def move(cluster: Desk, *replicas: int, **how: bool) -> ErrorCode:
    (outcome,) = cluster.run(reassign, [WantedReplicas("tides", 0, list(replicas) or None)], **how)
    return ErrorCode.NONE if outcome.error is None else outcome.error.code


def in_sync(cluster: Desk, *isr: int) -> PartitionRegistration:
    """The leader asks for this ISR; gives the partition as it is then."""
    partition = cluster.partition("tides")
    topic = cluster.image.topic("tides")
    assert topic is not None
    epochs = {node: broker.epoch for node, broker in cluster.image.brokers.items()}
    wanted = WantedIsr(
        topic.topic_id,
        PartitionIndex(0),
        partition.leader_epoch,
        partition.partition_epoch,
        [(NodeId(node), epochs[NodeId(node)]) for node in isr],
    )
    (changed,) = cluster.run(alter_partitions, partition.leader, epochs[partition.leader], [wanted])
    assert isinstance(changed.outcome, PartitionRegistration), changed.outcome
    return cluster.partition("tides")


def test_a_move_is_complete_when_all_new_replicas_are_in_sync() -> None:
    cluster = desk()
    assert move(cluster, 2, 4, 5) is ErrorCode.NONE
    moving = cluster.partition("tides")
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ((2, 4, 5, 1, 3), (4, 5), (1, 3))
    assert (moving.leader, moving.isr) == (1, (1, 2, 3)), "nothing else changes yet"
    assert in_sync(cluster, 1, 2, 3, 4).reassigning
    moved = in_sync(cluster, 1, 2, 3, 4, 5)
    assert not moved.reassigning
    assert (moved.replicas, moved.isr) == ((2, 4, 5), (2, 4, 5))
    assert moved.leader == 2
    assert moved.leader_epoch == moving.leader_epoch + 1
    assert len(moved.directories) == 3


def test_who_is_only_removed_goes_at_once_and_is_fenced_by_a_new_epoch() -> None:
    cluster = desk()
    before = cluster.partition("tides")
    move(cluster, 1, 2)
    after = cluster.partition("tides")
    assert (after.replicas, after.isr, after.leader) == ((1, 2), (1, 2), 1)
    assert after.leader_epoch == before.leader_epoch + 1


def test_another_order_of_the_same_replicas_is_no_move() -> None:
    cluster = desk()
    move(cluster, 3, 1, 2)
    after = cluster.partition("tides")
    assert (after.replicas, after.reassigning, after.leader) == ((3, 1, 2), False, 1)


def test_a_move_that_is_given_up_leaves_the_replicas_as_they_were() -> None:
    cluster = desk()
    move(cluster, 4, 5)
    in_sync(cluster, 1, 2, 3, 4)
    assert move(cluster) is ErrorCode.NONE
    after = cluster.partition("tides")
    assert set(after.replicas) == {1, 2, 3}
    assert (after.isr, after.reassigning, after.leader) == ((1, 2, 3), False, 1)
    assert move(cluster) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_second_move_still_waits_for_what_the_first_has_not_added_yet() -> None:
    cluster = desk()
    move(cluster, 1, 2, 4)
    move(cluster, 1, 4, 5)
    moving = cluster.partition("tides")
    assert moving.adding_replicas == (4, 5)
    assert set(moving.removing_replicas) == {2, 3}


@pytest.mark.parametrize(
    ("replicas", "code"),
    [((1, 2, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT), ((1, 2, 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT)],
)
def test_a_move_to_nowhere_is_refused(replicas: tuple[int, ...], code: ErrorCode) -> None:
    cluster = desk()
    assert move(cluster, *replicas) is code
    assert cluster.partition("tides").replicas == (1, 2, 3)


def test_the_replication_factor_stays_where_that_is_asked_for() -> None:
    cluster = desk()
    assert move(cluster, 1, 2, may_change_factor=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(cluster, 1, 2, 4, may_change_factor=False) is ErrorCode.NONE


def test_a_broker_that_dies_during_a_move_does_not_end_it() -> None:
    cluster = desk()
    move(cluster, 1, 2, 4)
    cluster.beat(4, want_fence=True)
    assert cluster.partition("tides").reassigning
    cluster.beat(4)
    assert not in_sync(cluster, 1, 2, 3, 4).reassigning


@pytest.mark.req("G6")
def test_leadership_returns_to_the_preferred_replicas_that_are_in_sync() -> None:
    cluster = desk()
    cluster.beat(1, want_fence=True)
    assert cluster.partition("tides").leader == 2
    assert cluster.run(rebalance) == 0
    cluster.beat(1)
    assert cluster.run(rebalance) == 0, "not in sync yet"
    in_sync(cluster, 2, 3, 1)
    assert cluster.run(rebalance) == 1
    assert cluster.partition("tides").leader == 1
