from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.metadata.image import EMPTY, ClusterImage, ConfigResource, LeaderRecoveryState, ResourceType
from tidelog.metadata.replay import LEADER_UNCHANGED, InconsistentMetadataError, replay
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName
from tidelog.wire.messages import metadata_records as wire
from tidelog.wire.schema import Message

ORDERS = UUID(int=100)
EPOCH = LeaderEpoch(1)


def image_of(*records: Message, start: ClusterImage = EMPTY) -> ClusterImage:
    return replay(start, records, Offset(start.offset + len(records)), EPOCH).after


def partition(index: int, topic_id: UUID = ORDERS, **fields: object) -> wire.PartitionRecord:
    values: dict[str, object] = {
        "replicas": [1, 2, 3],
        "isr": [1, 2, 3],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [UUID(int=1)] * 3,
    }
    return wire.PartitionRecord(partition_id=index, topic_id=topic_id, **(values | fields))


def orders(partitions: int = 2) -> ClusterImage:
    return image_of(wire.TopicRecord(name="orders", topic_id=ORDERS), *map(partition, range(partitions)))


@pytest.mark.req("A13")
def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = orders()

    assert image.topic("orders") is image.topic_by_id(ORDERS)
    assert image.partition("orders", 1) is not None
    assert image.partition("orders", 2) is None
    assert image.partition("orders", -1) is None
    assert image.topic("payments") is None


def test_an_image_knows_the_last_record_in_it() -> None:
    image = orders(partitions=2)

    assert (image.offset, image.end_offset, image.epoch) == (2, 3, EPOCH)


def test_naming_a_leader_begins_a_new_leader_epoch() -> None:
    image = image_of(wire.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=2, isr=[2, 3]), start=orders())

    changed = image.partition("orders", 0)
    assert changed is not None
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (2, 1, 1)
    assert changed.isr == (2, 3)
    assert changed.replicas == (1, 2, 3)


def test_naming_the_same_leader_begins_a_new_leader_epoch_too() -> None:
    image = image_of(wire.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=1), start=orders())

    changed = image.partition("orders", 0)
    assert changed is not None
    assert (changed.leader, changed.leader_epoch) == (1, 1)


def test_a_change_of_the_isr_alone_keeps_leader_and_leader_epoch() -> None:
    record = wire.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, isr=[1])
    assert record.leader == LEADER_UNCHANGED

    changed = image_of(record, start=orders()).partition("orders", 0)

    assert changed is not None
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 0, 1)
    assert changed.isr == (1,)


def test_recovery_eligible_leaders_and_reassignment_are_kept() -> None:
    record = wire.PartitionChangeRecord(
        partition_id=0,
        topic_id=ORDERS,
        leader=3,
        isr=[3],
        replicas=[1, 2, 3, 4],
        adding_replicas=[4],
        removing_replicas=[1],
        leader_recovery_state=1,
        eligible_leader_replicas=[2],
        last_known_elr=[1],
        directories=[UUID(int=1)] * 4,
    )

    changed = image_of(record, start=orders()).partition("orders", 0)

    assert changed is not None
    assert changed.leader_recovery_state is LeaderRecoveryState.RECOVERING
    assert (changed.eligible_leader_replicas, changed.last_known_elr) == ((2,), (1,))
    assert (changed.adding_replicas, changed.removing_replicas) == ((4,), (1,))
    assert changed.reassigning


def test_a_cleared_topic_has_no_eligible_leaders() -> None:
    start = image_of(
        wire.TopicRecord(name="orders", topic_id=ORDERS),
        partition(0, isr=[1], eligible_leader_replicas=[2], last_known_elr=[3]),
    )

    cleared = image_of(wire.ClearElrRecord(topic_name="orders"), start=start).partition("orders", 0)

    assert cleared is not None
    assert (cleared.eligible_leader_replicas, cleared.last_known_elr) == ((), ())


def test_a_removed_topic_takes_its_settings_with_it() -> None:
    setting = wire.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")
    image = image_of(setting, start=orders())
    assert image.config(ConfigResource(ResourceType.TOPIC, "orders")) == {"retention.ms": "1"}

    removed = image_of(wire.RemoveTopicRecord(topic_id=ORDERS), start=image)

    assert removed.topic("orders") is None
    assert removed.topic_by_id(ORDERS) is None
    assert removed.configs == {}


def test_a_setting_without_value_is_gone() -> None:
    image = image_of(wire.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="1"))

    image = image_of(
        wire.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=None), start=image
    )

    assert image.configs == {}


def test_a_broker_is_registered_changed_and_unregistered() -> None:
    register = wire.RegisterBrokerRecord(
        broker_id=1,
        broker_epoch=7,
        incarnation_id=UUID(int=9),
        end_points=[wire.BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092)],
        features=[wire.BrokerFeature(name="metadata.version", min_supported_version=1, max_supported_version=2)],
        rack="a",
        log_dirs=[UUID(int=5)],
    )
    image = image_of(register)
    broker = image.brokers[NodeId(1)]
    assert broker.fenced and not broker.active
    assert broker.endpoints["PLAINTEXT"].port == 9092
    assert broker.features["metadata.version"] == (1, 2)

    image = image_of(wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1), start=image)
    assert image.brokers[NodeId(1)].active
    image = image_of(
        wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, in_controlled_shutdown=1), start=image
    )
    assert not image.brokers[NodeId(1)].active
    assert list(image.unfenced_brokers())
    image = image_of(wire.FenceBrokerRecord(id=1, epoch=7), start=image)
    assert not list(image.unfenced_brokers())

    assert image_of(wire.UnregisterBrokerRecord(broker_id=1, broker_epoch=7), start=image).brokers == {}


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(wire.TopicRecord(name="orders", topic_id=UUID(int=7)), id="a topic twice"),
        pytest.param(wire.RemoveTopicRecord(topic_id=UUID(int=7)), id="removes an unknown topic"),
        pytest.param(partition(0, topic_id=UUID(int=7)), id="partition of an unknown topic"),
        pytest.param(wire.PartitionChangeRecord(partition_id=9, topic_id=ORDERS), id="changes an unknown partition"),
        pytest.param(wire.FenceBrokerRecord(id=1, epoch=1), id="fences an unknown broker"),
        pytest.param(wire.ZkMigrationStateRecord(), id="a record that is not ours to read"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(record: Message) -> None:
    with pytest.raises(InconsistentMetadataError):
        image_of(record, start=orders())


def test_an_old_image_never_changes() -> None:
    before = orders(partitions=1)
    setting = wire.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")

    image_of(setting, partition(1), wire.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=3), start=before)

    assert before == orders(partitions=1)


def test_what_no_record_touches_is_shared_with_the_old_image() -> None:
    before = image_of(
        wire.TopicRecord(name="orders", topic_id=ORDERS),
        partition(0),
        wire.TopicRecord(name="payments", topic_id=UUID(int=101)),
        partition(0, topic_id=UUID(int=101)),
    )

    after = image_of(wire.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=3), start=before)

    assert after.topic("payments") is before.topic("payments")
    assert after.brokers is before.brokers
    assert after.configs is before.configs


def test_a_change_tells_what_it_created_changed_and_removed() -> None:
    before = image_of(
        wire.TopicRecord(name="orders", topic_id=ORDERS),
        partition(0),
        partition(1),
        wire.TopicRecord(name="payments", topic_id=UUID(int=101)),
        partition(0, topic_id=UUID(int=101)),
    )
    burst: list[Message] = [
        wire.RemoveTopicRecord(topic_id=UUID(int=101)),
        wire.TopicRecord(name="payments", topic_id=UUID(int=102)),
        partition(0, topic_id=UUID(int=102), replicas=[2], isr=[2], leader=2, directories=[UUID(int=1)]),
        wire.PartitionChangeRecord(partition_id=1, topic_id=ORDERS, leader=3),
        wire.TopicRecord(name="short-lived", topic_id=UUID(int=103)),
        wire.RemoveTopicRecord(topic_id=UUID(int=103)),
        wire.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1"),
    ]

    delta = replay(before, burst, Offset(20), EPOCH)

    assert delta.topics_removed.keys() == {UUID(int=101)}
    assert delta.topics_created.keys() == {UUID(int=102)}
    assert delta.partitions_changed == {ORDERS: (1,)}
    assert delta.configs_changed == {ConfigResource(ResourceType.TOPIC, "orders")}
    assert [(change.topic, change.partition, change.after is None) for change in delta.partition_changes()] == [
        ("payments", 0, True),
        ("payments", 0, False),
        ("orders", 1, False),
    ]


def test_a_broker_learns_what_to_stop_lead_and_follow() -> None:
    before = orders(partitions=3)
    burst = [
        wire.PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=2),
        wire.PartitionChangeRecord(partition_id=1, topic_id=ORDERS, replicas=[1, 3], isr=[1, 3]),
        wire.PartitionChangeRecord(partition_id=2, topic_id=ORDERS, isr=[1, 2]),
    ]

    local = replay(before, burst, Offset(9), EPOCH).local_changes(NodeId(2))

    assert [change.partition for change in local.lead] == [PartitionIndex(0)]
    assert [change.partition for change in local.remove] == [PartitionIndex(1)]
    assert [change.partition for change in local.follow] == [PartitionIndex(2)]
    assert local.lead[0].topic_partition == (TopicName("orders"), 0)


def test_records_between_begin_and_end_apply_and_those_before_an_abort_do_not() -> None:
    begin, end, abort = wire.BeginTransactionRecord(), wire.EndTransactionRecord(), wire.AbortTransactionRecord()
    level = wire.FeatureLevelRecord(name="metadata.version", feature_level=29)

    assert image_of(begin, level, end).features == {"metadata.version": 29}
    assert image_of(begin, level, abort).features == {}
    with pytest.raises(InconsistentMetadataError):
        image_of(begin, level)
