from __future__ import annotations

from uuid import UUID

import pytest

from harness.controller_desk import Desk
from tidelog.controller.elections import Rules, change
from tidelog.controller.isr_changes import WantedIsr, alter_partitions
from tidelog.controller.topics import NewTopic, create
from tidelog.metadata.image import LeaderRecoveryState, PartitionRegistration
from tidelog.metadata.replay import changed
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionIndex

FIRST = PartitionIndex(0)


def desk(factor: int = 3) -> Desk:
    made = Desk(nodes=(1, 2, 3, 4))
    made.run(create, [NewTopic("tides", assignments=[(0, list(range(1, factor + 1)))])])
    return made


def ask(
    desk: Desk,
    *isr: int,
    by: int = 1,
    leader_epoch: int | None = None,
    partition_epoch: int | None = None,
    epochs: dict[int, int] | None = None,
    topic_id: UUID | None = None,
) -> PartitionRegistration | ProtocolError:
    partition = desk.partition("tides")
    topic = desk.image.topic("tides")
    assert topic is not None
    wanted = WantedIsr(
        topic_id or topic.topic_id,
        FIRST,
        LeaderEpoch(partition.leader_epoch if leader_epoch is None else leader_epoch),
        partition.partition_epoch if partition_epoch is None else partition_epoch,
        [(NodeId(node), {**_epochs(desk), **(epochs or {})}[node]) for node in isr],
    )
    (changed_isr,) = desk.run(alter_partitions, NodeId(by), desk.image.brokers[NodeId(by)].epoch, [wanted])
    return changed_isr.outcome


def _epochs(desk: Desk) -> dict[int, int]:
    return {int(node): broker.epoch for node, broker in desk.image.brokers.items()}


def test_the_leader_changes_its_isr_in_the_same_leader_epoch() -> None:
    cluster = desk()
    before = cluster.partition("tides")
    outcome = ask(cluster, 1, 3)
    assert outcome == cluster.partition("tides")
    assert isinstance(outcome, PartitionRegistration)
    assert outcome.isr == (1, 3)
    assert (outcome.leader_epoch, outcome.partition_epoch) == (before.leader_epoch, before.partition_epoch + 1)


@pytest.mark.req("D20")
def test_who_comes_back_is_last_in_the_isr() -> None:
    cluster = desk()
    ask(cluster, 1, 3)
    outcome = ask(cluster, 1, 3, 2)
    assert isinstance(outcome, PartitionRegistration)
    assert outcome.isr == (1, 3, 2)


@pytest.mark.parametrize(
    ("isr", "how", "code"),
    [
        ((1, 2), {"leader_epoch": 7}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 77}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 2), {"by": 2}, ErrorCode.INVALID_REQUEST),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((1, 4), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2, 2), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"epochs": {2: 1}}, ErrorCode.INELIGIBLE_REPLICA),
        ((1, 2), {"topic_id": UUID(int=1)}, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_a_change_that_is_old_wrong_or_unsafe_is_refused(isr: tuple[int, ...], how: dict, code: ErrorCode) -> None:  # type: ignore[type-arg]
    cluster = desk()
    outcome = ask(cluster, *isr, **how)
    assert isinstance(outcome, ProtocolError)
    assert outcome.code is code
    assert cluster.partition("tides").isr == (1, 2, 3)


def test_a_broker_that_is_fenced_or_shuts_down_does_not_join() -> None:
    cluster = desk()
    ask(cluster, 1, 3)
    cluster.beat(2, want_fence=True)
    outcome = ask(cluster, 1, 3, 2)
    assert isinstance(outcome, ProtocolError)
    assert outcome.code is ErrorCode.INELIGIBLE_REPLICA
    cluster.beat(3, want_shut_down=True)
    assert isinstance(ask(cluster, 1, 3), ProtocolError)


def test_a_broker_that_restarted_after_it_was_last_heard_of_does_not_join() -> None:
    cluster = desk()
    ask(cluster, 1, 3)
    before = _epochs(cluster)
    cluster.beat(2, want_fence=True)
    cluster.now_ms += 100_000
    cluster.start(2)
    assert isinstance(ask(cluster, 1, 3, 2, epochs={2: before[2]}), ProtocolError)
    assert isinstance(ask(cluster, 1, 3, 2), PartitionRegistration)


def test_an_old_incarnation_changes_nothing() -> None:
    cluster = desk()
    with pytest.raises(ProtocolError, match="no longer, registered"):
        cluster.run(alter_partitions, NodeId(1), 0, [])


def test_a_leader_that_may_have_lost_records_is_recovered_when_it_says_so() -> None:
    cluster = desk()
    partition = PartitionRegistration(
        (NodeId(1), NodeId(2)), (NodeId(1),), NodeId(2), LeaderEpoch(1), 1, LeaderRecoveryState.RECOVERED
    )
    topic = cluster.image.topic("tides")
    assert topic is not None
    record = change(topic.topic_id, FIRST, partition, {NodeId(2)}, Rules(unclean=True), without=(NodeId(1),))
    assert record is not None
    assert changed(partition, record).leader_recovery_state is LeaderRecoveryState.RECOVERING
