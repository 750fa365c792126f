from __future__ import annotations

import pytest

from harness.group_consumer import Consumer, pair, settle
from harness.group_desk import GROUP, GroupDesk, cluster, topic_id
from tidelog.groups.admin import delete_group, describe_group, list_groups
from tidelog.groups.consumer.describe import describe_consumer_group
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.heartbeat import consumer_heartbeat
from tidelog.groups.consumer.member import MemberState
from tidelog.groups.settings import Settings
from tidelog.metadata.image import ConfigResource, ResourceType
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

SESSION_MS = 45_000


def group_of(desk: GroupDesk) -> ConsumerGroup:
    group = desk.shard.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    return group


@pytest.mark.req("A21")
def test_the_first_member_gets_all_partitions_with_its_first_heartbeat() -> None:
    desk = GroupDesk()
    consumer = Consumer(desk, "first", ["orders", "prices"])

    answer = consumer.join()

    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "first", 1)
    assert answer.heartbeat_interval_ms == 5000
    assert consumer.owned == {"orders": {0, 1, 2, 3}, "prices": {0, 1}}
    assert group_of(desk).state.value == "Stable"


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_is_told_nothing() -> None:
    desk = GroupDesk()
    consumer = Consumer(desk, "first")
    consumer.join()
    consumer.beat()
    batches = len(desk.journal.batches)

    answer = consumer.send(1)

    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 1, None)
    assert len(desk.journal.batches) == batches


def test_a_member_of_an_old_version_is_given_its_id() -> None:
    desk = GroupDesk()
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, rebalance_timeout_ms=1000, subscribed_topic_names=["orders"], topic_partitions=[]
    )

    answer = desk.answers[desk.call(consumer_heartbeat, request, 0)]

    assert answer.error_code == 0
    assert answer.member_id in group_of(desk).members


@pytest.mark.req("L1", "A21")
def test_a_partition_is_given_to_a_newcomer_only_when_its_owner_has_given_it_up() -> None:
    desk = GroupDesk()
    first, second = Consumer(desk, "first"), Consumer(desk, "second")
    first.join()

    second.join()
    assert (second.epoch, second.owned) == (2, {})
    assert group_of(desk).members["second"].state is MemberState.UNRELEASED
    revoke = first.send(1, topic_partitions=first.listed())
    assert revoke.member_epoch == 1 and revoke.assignment is not None
    assert group_of(desk).members["first"].state is MemberState.UNREVOKED
    assert second.beat().assignment is None

    first.follow(revoke)
    assert first.beat().member_epoch == 2
    second.beat()

    assert first.count == second.count == 2
    assert not first.owned["orders"] & second.owned["orders"]
    assert group_of(desk).state.value == "Stable"


def test_a_member_that_does_not_say_what_it_owns_has_given_up_nothing() -> None:
    desk = GroupDesk()
    first, second = Consumer(desk, "first"), Consumer(desk, "second")
    first.join(), second.join()
    first.beat()

    assert first.send(1).member_epoch == 1

    assert group_of(desk).members["first"].state is MemberState.UNREVOKED


@pytest.mark.req("L1")
def test_when_a_member_leaves_the_others_get_its_partitions() -> None:
    desk = GroupDesk()
    first, second = pair(desk)

    left = second.leave()
    assert (left.error_code, left.member_id, left.member_epoch) == (0, "second", -1)
    settle(first)

    assert first.owned == {"orders": {0, 1, 2, 3}}
    assert list(group_of(desk).members) == ["first"]


def test_a_member_that_is_silent_for_a_session_is_out() -> None:
    desk = GroupDesk()
    first, second = pair(desk)

    desk.pass_time(SESSION_MS - 1)
    first.beat()
    desk.pass_time(1)

    assert second.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    settle(first)
    assert first.count == 4


def test_after_a_reload_sessions_begin_anew_and_all_goes_on() -> None:
    desk = GroupDesk()
    first, second = pair(desk)
    desk.pass_time(SESSION_MS - 1)

    desk.reload()
    desk.pass_time(SESSION_MS - 1)

    assert first.beat().error_code == second.beat().error_code == 0
    assert first.count == second.count == 2


def test_a_member_that_does_not_give_up_in_time_is_fenced() -> None:
    desk = GroupDesk()
    first, second = Consumer(desk, "first", rebalance_timeout_ms=20_000), Consumer(desk, "second")
    first.join(), second.join()
    first.send(1, topic_partitions=first.listed())

    for _ in range(4):
        desk.pass_time(5_000)
        answer = first.send(1, topic_partitions=first.listed())
        second.beat()

    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    settle(second)
    assert second.count == 4


def test_the_time_to_give_up_begins_anew_after_a_reload() -> None:
    desk = GroupDesk()
    first, second = Consumer(desk, "first", rebalance_timeout_ms=20_000), Consumer(desk, "second")
    first.join(), second.join()
    first.send(1, topic_partitions=first.listed())
    desk.pass_time(19_000)
    desk.reload()

    desk.pass_time(19_000)
    assert "first" in group_of(desk).members
    desk.pass_time(1_000)

    assert "first" not in group_of(desk).members


def test_epochs_that_are_not_the_members_are_fenced() -> None:
    desk = GroupDesk()
    first, _ = pair(desk)

    assert first.send(first.epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.send(first.epoch - 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert first.send(first.epoch).error_code == ErrorCode.NONE


def test_who_missed_an_answer_may_still_name_the_epoch_before() -> None:
    desk = GroupDesk()
    first, second = Consumer(desk, "first"), Consumer(desk, "second")
    first.join(), second.join()
    first.beat()
    lost = first.send(1, topic_partitions=first.listed())
    assert lost.member_epoch == 2

    again = first.send(1, topic_partitions=first.listed())

    assert (again.error_code, again.member_epoch) == (0, 2)
    extra = [*first.listed(), *Consumer(desk, "x").listed()]
    extra[0].partitions = [0, 1, 2, 3]
    assert first.send(1, topic_partitions=extra).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_fenced_member_joins_again_with_epoch_0_and_the_same_id() -> None:
    desk = GroupDesk()
    first, second = pair(desk)
    before = first.owned

    answer = first.join()

    assert (answer.error_code, answer.member_epoch) == (0, 2)
    assert first.owned == before
    settle(first, second)


def test_unknown_groups_and_members_are_refused() -> None:
    desk = GroupDesk()

    assert Consumer(desk, "first").send(1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert Consumer(desk, "first").leave().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    pair(desk)
    assert Consumer(desk, "third").send(1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert Consumer(desk, "third").leave().error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "version", "expected"),
    [
        ({"member_epoch": 0, "topic_partitions": [], "subscribed_topic_names": []}, 1, "RebalanceTimeoutMs"),
        ({"member_epoch": 0, "rebalance_timeout_ms": 1, "subscribed_topic_names": []}, 1, "TopicPartitions"),
        ({"member_epoch": 0, "rebalance_timeout_ms": 1, "topic_partitions": []}, 1, "SubscribedTopicNames"),
        ({"member_id": "", "member_epoch": 0}, 1, "MemberId"),
        ({"member_id": " ", "member_epoch": 4}, 0, "MemberId"),
        ({"group_id": ""}, 1, "GroupId"),
        ({"instance_id": ""}, 1, "InstanceId"),
        ({"rack_id": ""}, 1, "RackId"),
        ({"member_epoch": -2}, 1, "InstanceId"),
        ({"member_epoch": -3}, 1, "MemberEpoch"),
    ],
)
def test_requests_that_make_no_sense_are_refused(fields: dict[str, object], version: int, expected: str) -> None:
    desk = GroupDesk()
    values = {"group_id": GROUP, "member_id": "m", "member_epoch": 1, **fields}
    request = ConsumerGroupHeartbeatRequest(**values)  # type: ignore[arg-type]

    answer = desk.answers[desk.call(consumer_heartbeat, request, version)]

    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert expected in answer.error_message


def test_an_assignor_that_the_broker_lacks_is_refused() -> None:
    desk = GroupDesk()

    answer = Consumer(desk, "first", assignor="clever").join()

    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert not desk.shard.groups


def test_members_choose_the_assignor_by_vote() -> None:
    desk = GroupDesk(topics={"a": 1, "b": 1, "c": 1})
    consumers = [Consumer(desk, name, ["a", "b", "c"], assignor="range") for name in ("first", "second")]
    for consumer in consumers:
        consumer.join()
    settle(*consumers)

    assert sorted(consumer.count for consumer in consumers) == [0, 3]
    assert desk.read(lambda shard: describe_consumer_group(shard, GROUP)).assignor_name == "range"


def test_a_group_takes_no_more_members_than_its_limit() -> None:
    desk = GroupDesk(Settings(consumer_group_size_max=1))
    first = Consumer(desk, "first")
    first.join()

    assert Consumer(desk, "second").join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.beat().error_code == ErrorCode.NONE


@pytest.mark.req("L2")
def test_a_member_that_subscribes_to_something_else_gives_up_what_it_no_longer_reads() -> None:
    desk = GroupDesk()
    first, second = pair(desk)

    first.beat(subscribed_topic_names=["prices"])
    settle(first, second)

    assert (first.owned, second.owned) == ({"prices": {0, 1}}, {"orders": {0, 1, 2, 3}})


def test_who_subscribes_to_nothing_has_nothing() -> None:
    desk = GroupDesk()
    first, second = pair(desk)

    first.beat(subscribed_topic_names=[])
    settle(first, second)

    assert (first.owned, second.count) == ({}, 4)


@pytest.mark.req("L3")
def test_new_partitions_are_assigned() -> None:
    desk = GroupDesk()
    first, second = pair(desk)

    desk.image = cluster({"orders": 6, "prices": 2})
    desk.shard.metadata_changed(desk.image)
    settle(first, second)

    assert first.owned["orders"] | second.owned["orders"] == set(range(6))
    assert first.count == second.count == 3


@pytest.mark.req("L2")
def test_partitions_of_a_deleted_topic_are_taken_away_and_those_of_a_new_one_given() -> None:
    desk = GroupDesk(topics={"orders": 2})
    consumer = Consumer(desk, "first", ["orders", "late"])
    consumer.join()
    assert consumer.owned == {"orders": {0, 1}}

    desk.image = cluster({"late": 3})
    desk.shard.metadata_changed(desk.image)
    consumer.owned = {}
    settle(consumer)

    assert consumer.owned == {"late": {0, 1, 2}}


def test_a_change_that_is_not_of_topics_makes_no_group_look() -> None:
    desk = GroupDesk()
    consumer = Consumer(desk, "first")
    consumer.join()
    consumer.beat()

    desk.shard.metadata_changed(cluster({"orders": 9}), topics_changed=False)

    assert consumer.beat().member_epoch == 1


def test_what_changed_while_nobody_led_is_seen_after_the_reload() -> None:
    desk = GroupDesk()
    first, second = pair(desk)

    desk.image = cluster({"orders": 8, "prices": 2})
    desk.reload()
    settle(first, second)

    assert first.count == second.count == 4


def test_a_pattern_subscribes_to_all_topics_that_match_now_and_later() -> None:
    desk = GroupDesk(topics={"orders.eu": 1, "orders.us": 1, "prices": 1})
    consumer = Consumer(desk, "first", None, pattern="orders[.].*")
    consumer.join()
    assert set(consumer.owned) == {"orders.eu", "orders.us"}

    desk.image = cluster({"orders.eu": 1, "orders.asia": 1, "prices": 1})
    desk.shard.metadata_changed(desk.image)
    consumer.owned.pop("orders.us")
    settle(consumer)

    assert set(consumer.owned) == {"orders.eu", "orders.asia"}
    desk.reload()
    settle(consumer)
    assert set(consumer.owned) == {"orders.eu", "orders.asia"}


def test_a_pattern_and_names_go_together() -> None:
    desk = GroupDesk(topics={"orders": 1, "prices": 1, "other": 1})
    consumer = Consumer(desk, "first", ["prices"], pattern="ord.*")

    consumer.join()

    assert set(consumer.owned) == {"orders", "prices"}


def test_the_last_member_that_drops_a_pattern_takes_it_out_of_the_log() -> None:
    desk = GroupDesk()
    first, second = Consumer(desk, "first", None, pattern="ord.*"), Consumer(desk, "second", None, pattern="ord.*")
    first.join(), second.join()
    settle(first, second)

    first.beat(subscribed_topic_regex="")
    assert set(group_of(desk).resolved) == {"ord.*"}
    second.beat(subscribed_topic_regex="pri.*")
    settle(first, second)
    assert set(group_of(desk).resolved) == {"pri.*"}
    second.leave()

    assert group_of(desk).resolved == {}


def test_a_pattern_that_is_none_is_refused() -> None:
    desk = GroupDesk()

    answer = Consumer(desk, "first", None, pattern="orders(").join()

    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not desk.shard.groups


def test_a_static_member_that_leaves_for_a_while_finds_its_partitions_again() -> None:
    desk = GroupDesk()
    first, second = Consumer(desk, "first", instance_id="shelf"), Consumer(desk, "second")
    first.join(), second.join()
    settle(first, second)
    before = first.owned

    assert first.leave(-2).member_epoch == -2
    settle(second)
    assert second.count == 2
    desk.reload()
    returned = Consumer(desk, "returned", instance_id="shelf")
    answer = returned.join()

    assert (answer.error_code, returned.owned) == (0, before)
    assert set(group_of(desk).members) == {"second", "returned"}


def test_a_static_member_that_stays_away_for_a_session_loses_its_place() -> None:
    desk = GroupDesk()
    first, second = Consumer(desk, "first", instance_id="shelf"), Consumer(desk, "second")
    first.join(), second.join()
    settle(first, second)
    first.leave(-2)

    for _ in range(5):
        desk.pass_time(10_000)
        settle(second, rounds=2)

    assert second.count == 4


def test_an_instance_that_is_in_use_cannot_be_taken() -> None:
    desk = GroupDesk()
    first = Consumer(desk, "first", instance_id="shelf")
    first.join()

    assert Consumer(desk, "other", instance_id="shelf").join().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert Consumer(desk, "other", instance_id="shelf").send(1).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert Consumer(desk, "other", instance_id="none").send(1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert Consumer(desk, "other", instance_id="shelf").leave(-2).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_when_an_epoch_cannot_be_written_the_next_heartbeat_tries_again() -> None:
    desk = GroupDesk()
    first, second = pair(desk)
    desk.image = cluster({"orders": 6, "prices": 2})
    desk.shard.metadata_changed(desk.image)
    desk.journal.refusal = ProtocolError(ErrorCode.NOT_ENOUGH_REPLICAS)
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="first", member_epoch=first.epoch)
    refused = desk.answers[desk.call(consumer_heartbeat, request, 1)]
    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    desk.journal.refusal = None

    settle(first, second)

    assert first.count == second.count == 3


def test_settings_of_a_group_override_those_of_the_broker() -> None:
    desk = GroupDesk()
    settings = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    image = cluster({"orders": 4})
    desk.shard.metadata_changed(
        type(image)(
            topics_by_name=image.topics_by_name,
            topics_by_id=image.topics_by_id,
            configs={ConfigResource(ResourceType.GROUP, GROUP): settings},
        )
    )
    consumer = Consumer(desk, "first")

    assert consumer.join().heartbeat_interval_ms == 7000
    desk.pass_time(49_999)
    assert consumer.beat().error_code == 0


def test_a_consumer_group_is_listed_described_and_deleted_when_empty() -> None:
    desk = GroupDesk()
    first, second = pair(desk)

    (listed,) = desk.read(list_groups)
    assert (listed.group_type, listed.group_state, listed.protocol_type) == ("consumer", "Stable", "consumer")
    described = desk.read(lambda shard: describe_consumer_group(shard, GROUP))
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    member = next(each for each in described.members if each.member_id == "first")
    assert (member.member_epoch, member.member_type, member.subscribed_topic_names) == (2, 1, ["orders"])
    (held,) = member.assignment.topic_partitions
    assert (held.topic_id, held.topic_name, set(held.partitions)) == (
        topic_id("orders"),
        "orders",
        first.owned["orders"],
    )
    assert member.target_assignment == member.assignment
    assert desk.read(lambda shard: describe_group(shard, GROUP, 6)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.read(lambda shard: delete_group(shard, GROUP)).error_code == ErrorCode.NON_EMPTY_GROUP
    first.leave(), second.leave()
    assert desk.read(lambda shard: delete_group(shard, GROUP)).error_code == ErrorCode.NONE

    assert not desk.shard.groups
    desk.reload()
    assert not desk.shard.groups
    unknown = desk.read(lambda shard: describe_consumer_group(shard, GROUP))
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_consumer_group_without_offsets_is_forgotten_at_the_next_sweep() -> None:
    desk = GroupDesk()
    consumer = Consumer(desk, "first")
    consumer.join()
    consumer.leave()

    desk.pass_time(desk.settings.offsets_retention_check_interval_ms)

    assert not desk.shard.groups
