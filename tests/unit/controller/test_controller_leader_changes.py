"""ElectLeaders: back to the preferred leader, or any leader where there is none."""

from __future__ import annotations

import pytest

from harness.controller_desk import Desk
from tidelog.controller import brokers
from tidelog.controller.leader_changes import ElectionType, elect_leaders
from tidelog.controller.topics import NewTopic, create
from tidelog.machine.runtime import Result
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.metadata_records import PartitionChangeRecord

PREFERRED, UNCLEAN = ElectionType


def desk_with_orders() -> Desk:
    """Two partitions, of which brokers 1 and 2 are the preferred leaders."""
    desk = Desk((1, 2))
    desk.run(create, [NewTopic("orders", assignments=[(0, [1, 2]), (1, [2, 1])])])
    return desk


def stop(desk: Desk, node: int) -> None:
    desk.beat(node, want_fence=True)


def elected(desk: Desk, kind: int, *partitions: int, everything: bool = False) -> list[tuple[int, ErrorCode]]:
    asked = None if everything else [("orders", list(partitions))]
    outcomes = desk.run(elect_leaders, kind, asked)
    return [(each.partition, ErrorCode.NONE if each.error is None else each.error.code) for each in outcomes]


def leaders(desk: Desk) -> list[int]:
    return [desk.partition("orders", index).leader for index in (0, 1)]


def desk_after_broker_1_was_away() -> Desk:
    desk = desk_with_orders()
    stop(desk, 1)
    assert leaders(desk) == [2, 2]
    desk.beat(1)
    for index in (0, 1):
        _join_isr(desk, index)
    assert leaders(desk) == [2, 2]
    return desk


def _join_isr(desk: Desk, index: int) -> None:
    """As AlterPartition will, when followers catch up."""
    topic = desk.image.topic("orders")
    assert topic is not None
    record = PartitionChangeRecord(index, topic.topic_id, [1, 2])
    desk.run(lambda _: Result([record], None))


def test_a_leader_that_is_the_preferred_one_stays() -> None:
    desk = desk_with_orders()

    assert elected(desk, PREFERRED, 0, 1) == [
        (0, ErrorCode.ELECTION_NOT_NEEDED),
        (1, ErrorCode.ELECTION_NOT_NEEDED),
    ]
    assert elected(desk, PREFERRED, everything=True) == []


@pytest.mark.req("M12")
def test_the_preferred_leader_leads_again_when_it_is_in_sync() -> None:
    desk = desk_after_broker_1_was_away()
    epoch = desk.partition("orders", 0).leader_epoch

    assert elected(desk, PREFERRED, everything=True) == [(0, ErrorCode.NONE)]
    assert leaders(desk) == [1, 2]
    assert desk.partition("orders", 0).leader_epoch == epoch + 1


def test_a_preferred_leader_that_is_gone_cannot_lead() -> None:
    desk = desk_with_orders()
    stop(desk, 1)

    assert elected(desk, PREFERRED, 0) == [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
    assert leaders(desk) == [2, 2]


def test_an_unclean_election_is_only_for_partitions_without_a_leader() -> None:
    desk = desk_with_orders()
    assert elected(desk, UNCLEAN, 0) == [(0, ErrorCode.ELECTION_NOT_NEEDED)]
    stop(desk, 1)
    desk.run(brokers.fence_silent, 10**9)  # Broker 2 is the last in sync, and goes without a word.
    assert leaders(desk) == [-1, -1]

    assert elected(desk, UNCLEAN, 0) == [(0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]
    desk.now_ms = 10**9
    desk.start(1)
    assert leaders(desk) == [-1, -1]
    assert elected(desk, UNCLEAN, 0) == [(0, ErrorCode.NONE)]
    assert leaders(desk) == [1, -1]


def test_what_does_not_exist_is_said_so() -> None:
    desk = desk_with_orders()

    assert elected(desk, PREFERRED, 7) == [(7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    (outcome,) = desk.run(elect_leaders, PREFERRED, [("nothing", [0])])
    assert outcome.error is not None
    assert outcome.error.message == "No such topic as nothing"
    with pytest.raises(ProtocolError, match="Unknown election type 7"):
        desk.run(elect_leaders, 7, None)
