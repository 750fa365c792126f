from __future__ import annotations

from uuid import UUID

import pytest

from harness.controller_desk import Desk
from tidelog.controller.state import Policy
from tidelog.controller.topics import MorePartitions, NewTopic, add_partitions, create, delete
from tidelog.machine.runtime import RECORDS_PER_BATCH_MAX
from tidelog.metadata.image import ConfigResource, ResourceType
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.metadata_records import ConfigRecord, PartitionRecord, TopicRecord


def created(desk: Desk, topic: NewTopic) -> ErrorCode:
    """What a create command answers for one topic; with an error nothing may have been written."""
    written = len(desk.log)
    (outcome,) = desk.run(create, [topic])
    if outcome.error is None:
        return ErrorCode.NONE
    assert outcome.error.message
    assert len(desk.log) == written
    return outcome.error.code


@pytest.mark.req("A13", "F9")
def test_a_topic_is_created_with_an_id_and_its_partitions() -> None:
    desk = Desk(nodes=(1, 2, 3))

    (outcome,) = desk.run(create, [NewTopic("orders", 4, 3, settings=[("retention.ms", "1000")])])

    topic = desk.image.topic("orders")
    assert topic is not None
    assert outcome.error is None
    assert (outcome.topic_id, outcome.partitions, outcome.replication_factor) == (topic.topic_id, 4, 3)
    assert list(topic.partitions) == [0, 1, 2, 3]
    for partition in topic.partitions.values():
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.directories == tuple(UUID(int=9000 + node) for node in partition.replicas)
    assert desk.image.config(ConfigResource(ResourceType.TOPIC, "orders")) == {"retention.ms": "1000"}


def test_the_records_of_a_topic_are_in_the_order_in_which_apache_kafka_writes_them() -> None:
    desk = Desk()
    result = create(desk.controller, [NewTopic("orders", 1, 1, settings=[("retention.ms", "1000")])])

    assert [type(record) for record in result.records] == [TopicRecord, ConfigRecord, PartitionRecord]
    assert result.atomic


def test_what_a_request_leaves_open_the_controller_decides() -> None:
    desk = Desk(nodes=(1, 2, 3), policy=Policy(default_partitions=5, default_replication_factor=2))

    (outcome,) = desk.run(create, [NewTopic("orders")])

    assert (outcome.partitions, outcome.replication_factor) == (5, 2)


def test_replicas_given_by_hand_are_taken_as_they_are() -> None:
    desk = Desk(nodes=(1, 2, 3))

    desk.run(create, [NewTopic("orders", assignments=[(1, [2, 1]), (0, [3, 2])])])

    assert desk.partition("orders", 0).replicas == (3, 2)
    assert desk.partition("orders", 1).replicas == (2, 1)
    assert desk.partition("orders", 1).leader == 2


def test_a_fenced_replica_given_by_hand_is_not_in_sync() -> None:
    desk = Desk(nodes=(1, 2))
    desk.beat(1, want_fence=True)

    desk.run(create, [NewTopic("orders", assignments=[(0, [1, 2])])])

    assert (desk.partition("orders").leader, desk.partition("orders").isr) == (2, (2,))
    assert created(desk, NewTopic("lost", assignments=[(0, [1])])) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        pytest.param(NewTopic("old.name", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS, id="exists"),
        pytest.param(NewTopic("old_name", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, id="collides"),
        pytest.param(NewTopic("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, id="blank in the name"),
        pytest.param(NewTopic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, id="no name"),
        pytest.param(NewTopic("__cluster_metadata", 1, 1), ErrorCode.INVALID_REQUEST, id="the metadata log"),
        pytest.param(NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS, id="no partition"),
        pytest.param(NewTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS, id="negative partitions"),
        pytest.param(NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, id="no replica"),
        pytest.param(NewTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, id="negative replicas"),
        pytest.param(NewTopic("t", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR, id="more replicas than brokers"),
        pytest.param(NewTopic("t", 10_001, 1), ErrorCode.POLICY_VIOLATION, id="too many partitions"),
        pytest.param(NewTopic("t", 2**31 - 1, 1), ErrorCode.POLICY_VIOLATION, id="absurdly many partitions"),
        pytest.param(NewTopic("t", 1, 1, settings=[("foo", "1")]), ErrorCode.INVALID_CONFIG, id="unknown setting"),
        pytest.param(NewTopic("t", 1, 1, settings=[("retention.ms", "x")]), ErrorCode.INVALID_CONFIG, id="no number"),
        pytest.param(NewTopic("t", 1, 1, settings=[("retention.ms", None)]), ErrorCode.INVALID_CONFIG, id="null"),
        pytest.param(
            NewTopic("t", 1, 1, settings=[("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8")]),
            ErrorCode.INVALID_CONFIG,
            id="settings that contradict each other",
        ),
        pytest.param(
            NewTopic("t", assignments=[(0, [7])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="by hand: unknown broker"
        ),
        pytest.param(
            NewTopic("t", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="by hand: broker twice"
        ),
        pytest.param(
            NewTopic("t", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="by hand: no replica"
        ),
        pytest.param(NewTopic("t", assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="by hand: a gap"),
        pytest.param(
            NewTopic("t", assignments=[(0, [1]), (0, [2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            id="by hand: partition twice",
        ),
        pytest.param(
            NewTopic("t", assignments=[(0, [1]), (1, [1, 2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            id="by hand: different numbers of replicas",
        ),
        pytest.param(NewTopic("t", 1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST, id="by hand and a number"),
        pytest.param(
            NewTopic("t", replication_factor=1, assignments=[(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            id="by hand and a replication factor",
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_nothing_is_written(topic: NewTopic, code: ErrorCode) -> None:
    desk = Desk(nodes=(1, 2))
    desk.run(create, [NewTopic("old.name", 1, 1)])

    assert created(desk, topic) is code


def test_validate_only_says_what_would_happen_and_does_nothing() -> None:
    desk = Desk(nodes=(1, 2))

    good, bad = desk.run(create, [NewTopic("orders", 3, 2), NewTopic("payments", 0, 1)], validate_only=True)

    assert (good.error, good.partitions, good.replication_factor) == (None, 3, 2)
    assert bad.error is not None
    assert desk.image.topics_by_name == {}


def test_each_topic_of_a_request_stands_alone() -> None:
    desk = Desk()

    outcomes = desk.run(create, [NewTopic("orders", 1, 1), NewTopic("a b", 1, 1), NewTopic("payments", 1, 1)])

    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert desk.image.topics_by_name.keys() == {"orders", "payments"}


def test_a_topic_named_twice_in_a_request_is_refused() -> None:
    outcomes = Desk().run(create, [NewTopic("orders", 1, 1), NewTopic("orders", 2, 1)])

    assert [outcome.error and outcome.error.code for outcome in outcomes] == [ErrorCode.INVALID_REQUEST] * 2


def test_names_that_collide_within_a_request_are_refused_too() -> None:
    first, second = Desk().run(create, [NewTopic("a.b", 1, 1), NewTopic("a_b", 1, 1)])

    assert first.error is None
    assert second.error is not None
    assert second.error.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_request_for_more_records_than_a_batch_holds_is_refused_whole() -> None:
    desk = Desk()
    topics = [NewTopic(f"t{number}", RECORDS_PER_BATCH_MAX // 2, 1) for number in range(3)]

    with pytest.raises(ProtocolError) as refused:
        desk.run(create, topics)

    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert desk.image.topics_by_name == {}


@pytest.mark.req("S14")
def test_ten_thousand_topics_can_be_created_and_the_next_one_is_found_at_once() -> None:
    desk = Desk(nodes=(1, 2, 3))
    for start in range(0, 10_000, 1000):
        desk.run(create, [NewTopic(f"topic-{number}", 1, 3) for number in range(start, start + 1000)])

    desk.run(create, [NewTopic("one-more", 1, 3)])

    assert len(desk.image.topics_by_name) == 10_001
    assert desk.partition("one-more").replicas


@pytest.mark.req("F9")
def test_topics_are_deleted_by_name_and_by_id() -> None:
    desk = Desk()
    orders, payments = desk.run(create, [NewTopic("orders", 1, 1), NewTopic("payments", 1, 1)])

    outcomes = desk.run(delete, ["orders"], [payments.topic_id])

    assert [(outcome.name, outcome.topic_id, outcome.error) for outcome in outcomes] == [
        ("orders", orders.topic_id, None),
        ("payments", payments.topic_id, None),
    ]
    assert desk.image.topics_by_name == {}


def test_deleting_what_is_not_there_or_named_twice_is_refused() -> None:
    desk = Desk()
    (orders,) = desk.run(create, [NewTopic("orders", 1, 1)])

    unknown, twice, unknown_id, twice_id = desk.run(
        delete, ["nothing", "orders", "orders"], [UUID(int=1), orders.topic_id, orders.topic_id]
    )

    assert unknown.error is not None and unknown.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert twice.error is not None and twice.error.code is ErrorCode.INVALID_REQUEST
    assert unknown_id.error is not None and unknown_id.error.code is ErrorCode.UNKNOWN_TOPIC_ID
    assert twice_id.error is not None and twice_id.error.code is ErrorCode.INVALID_REQUEST
    assert desk.image.topic("orders") is not None


def test_a_topic_named_by_name_and_by_id_is_deleted_once() -> None:
    desk = Desk()
    (orders,) = desk.run(create, [NewTopic("orders", 1, 1)])

    first, second = desk.run(delete, ["orders"], [orders.topic_id])

    assert first.error is None
    assert second.error is not None and second.error.code is ErrorCode.INVALID_REQUEST


def test_topics_are_not_deleted_where_that_is_disabled() -> None:
    desk = Desk(policy=Policy(delete_topics=False))
    desk.run(create, [NewTopic("orders", 1, 1)])

    with pytest.raises(ProtocolError) as refused:
        desk.run(delete, ["orders"])

    assert refused.value.code is ErrorCode.TOPIC_DELETION_DISABLED


@pytest.mark.req("A13")
def test_a_topic_created_again_has_a_new_id_and_none_of_its_old_settings() -> None:
    desk = Desk()
    (before,) = desk.run(create, [NewTopic("orders", 1, 1, settings=[("retention.ms", "1")])])
    desk.run(delete, ["orders"])

    (after,) = desk.run(create, [NewTopic("orders", 1, 1)])

    assert after.topic_id != before.topic_id
    assert desk.image.configs == {}


def test_a_deleted_name_no_longer_collides() -> None:
    desk = Desk()
    desk.run(create, [NewTopic("a.b", 1, 1)])
    desk.run(delete, ["a.b"])

    assert created(desk, NewTopic("a_b", 1, 1)) is ErrorCode.NONE


@pytest.mark.req("F9")
def test_partitions_are_added_behind_those_that_are_there() -> None:
    desk = Desk(nodes=(1, 2, 3))
    desk.run(create, [NewTopic("orders", 2, 2)])
    before = dict(desk.image.topics_by_name["orders"].partitions)

    (outcome,) = desk.run(add_partitions, [MorePartitions("orders", 5)])

    partitions = desk.image.topics_by_name["orders"].partitions
    assert outcome.error is None
    assert list(partitions) == [0, 1, 2, 3, 4]
    assert {index: partitions[index] for index in before} == before
    assert all(len(partition.replicas) == 2 for partition in partitions.values())


def test_partitions_are_added_with_replicas_given_by_hand() -> None:
    desk = Desk(nodes=(1, 2, 3))
    desk.run(create, [NewTopic("orders", 1, 2)])

    desk.run(add_partitions, [MorePartitions("orders", 3, assignments=[[3, 1], [2, 3]])])

    assert desk.partition("orders", 1).replicas == (3, 1)
    assert desk.partition("orders", 2).replicas == (2, 3)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        pytest.param(MorePartitions("nothing", 9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="unknown topic"),
        pytest.param(MorePartitions("orders", 3), ErrorCode.INVALID_PARTITIONS, id="the same number"),
        pytest.param(MorePartitions("orders", 2), ErrorCode.INVALID_PARTITIONS, id="fewer"),
        pytest.param(MorePartitions("orders", -1), ErrorCode.INVALID_PARTITIONS, id="negative"),
        pytest.param(MorePartitions("orders", 2**31 - 1), ErrorCode.POLICY_VIOLATION, id="too many"),
        pytest.param(
            MorePartitions("orders", 5, assignments=[[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="one for two"
        ),
        pytest.param(
            MorePartitions("orders", 4, assignments=[[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="too few replicas"
        ),
        pytest.param(
            MorePartitions("orders", 4, assignments=[[1, 9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, id="unknown broker"
        ),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(more: MorePartitions, code: ErrorCode) -> None:
    desk = Desk(nodes=(1, 2))
    desk.run(create, [NewTopic("orders", 3, 2)])

    (outcome,) = desk.run(add_partitions, [more])

    assert outcome.error is not None
    assert outcome.error.code is code
    assert len(desk.image.topics_by_name["orders"].partitions) == 3


def test_adding_partitions_can_be_validated_only() -> None:
    desk = Desk()
    desk.run(create, [NewTopic("orders", 1, 1)])

    (outcome,) = desk.run(add_partitions, [MorePartitions("orders", 2)], validate_only=True)

    assert outcome.error is None
    assert len(desk.image.topics_by_name["orders"].partitions) == 1
