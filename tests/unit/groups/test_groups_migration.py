from __future__ import annotations

from typing import Any

import pytest

from harness.group_consumer import Consumer, settle
from harness.group_desk import GROUP, QUICK, GroupDesk, cluster
from tidelog.groups.api import join_group
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import State
from tidelog.groups.consumer.assignment import NOTHING
from tidelog.groups.consumer.describe import describe_consumer_group
from tidelog.groups.consumer.embedded import Malformed, read_assignment, subscription_of, write_assignment
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.offsets.commit import commit_offsets
from tidelog.groups.settings import MigrationPolicy, Settings
from tidelog.model.errors import ErrorCode
from tidelog.wire.compiler import decode, encode
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def given(**topics: list[int]) -> bytes:
    value = ConsumerProtocolAssignment([TopicPartition(name, numbers) for name, numbers in topics.items()])
    return b"\x00\x00" + encode(value, 0)


class Classic:
    """A cooperative consumer of the classic protocol that does as it is told at once."""

    def __init__(self, desk: GroupDesk, instance_id: str | None = None) -> None:
        self.desk = desk
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: set[int] = set()
        self.protocol = ""

    def join(self) -> Any:
        owned = [TopicPartition("orders", sorted(self.owned))] if self.owned else []
        subscription = ConsumerProtocolSubscription(["orders"], None, owned, self.generation)
        request = JoinGroupRequest(
            GROUP,
            10_000,
            60_000,
            self.member_id,
            self.instance_id,
            "consumer",
            [JoinGroupRequestProtocol("sticky", b"\x00\x02" + encode(subscription, 2))],
        )
        number = self.desk.call(join_group, request, 9)
        if self.desk.waits(number):
            return number
        answer = self.desk.answers[number]
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return self.join()
        if answer.error_code == ErrorCode.NONE:
            self.joined(answer)
        return answer

    def joined(self, answer: Any) -> None:
        self.member_id, self.generation, self.protocol = answer.member_id, answer.generation_id, answer.protocol_name

    def sync(self, assignments: dict[str, bytes] | None = None) -> Any:
        number = self.desk.sync(
            self.member_id, self.generation, assignments, instance_id=self.instance_id, protocol_name=self.protocol
        )
        if self.desk.waits(number):
            return number
        answer = self.desk.answers[number]
        if answer.error_code == ErrorCode.NONE:
            read = decode(ConsumerProtocolAssignment, 0, memoryview(answer.assignment)[2:])
            self.owned = {number for topic in read.assigned_partitions for number in topic.partitions}
        return answer

    def live(self, rounds: int = 6) -> None:
        """Heartbeat, and join again as often as asked."""
        for _ in range(rounds):
            error = self.desk.heartbeat(self.member_id, self.generation, instance_id=self.instance_id)
            if error == ErrorCode.NONE:
                return
            assert error == ErrorCode.REBALANCE_IN_PROGRESS
            self.join()
            self.sync()


def classic_pair(desk: GroupDesk) -> tuple[Classic, Classic]:
    """Two members of a stable classic group with two partitions each; the first leads."""
    leader, follower = Classic(desk), Classic(desk)
    leader.join()
    leader.sync({leader.member_id: given(orders=[0, 1, 2, 3])})
    waiting = follower.join()
    leader.join()
    follower.joined(desk.answers[waiting])
    leader.sync({leader.member_id: given(orders=[0, 1]), follower.member_id: given(orders=[2, 3])})
    follower.sync()
    assert (leader.owned, follower.owned) == ({0, 1}, {2, 3})
    return leader, follower


def kind(desk: GroupDesk) -> type:
    return type(desk.shard.groups[GROUP])


def commit(desk: GroupDesk, member_id: str = "", epoch: int = -1) -> int:
    topic = OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, 5)])
    request = OffsetCommitRequest(GROUP, epoch, member_id, topics=[topic])
    return int(desk.answers[desk.call(commit_offsets, request, 9)].topics[0].partitions[0].error_code)


def test_an_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()
    desk.leave(member)
    commit(desk)

    consumer = Consumer(desk, "first")
    assert consumer.join().error_code == 0

    assert kind(desk) is ConsumerGroup
    assert consumer.count == 4
    desk.reload()
    assert kind(desk) is ConsumerGroup
    assert desk.shard.offsets.get(GROUP, "orders", 0) is not None


def test_an_empty_consumer_group_becomes_a_classic_group_and_keeps_its_offsets() -> None:
    desk = GroupDesk()
    consumer = Consumer(desk, "first")
    consumer.join()
    commit(desk, "first", 1)
    consumer.leave()

    desk.stable_group()

    assert kind(desk) is ClassicGroup
    desk.reload()
    assert kind(desk) is ClassicGroup
    assert desk.shard.offsets.get(GROUP, "orders", 0) is not None


def test_a_group_that_only_stored_offsets_may_become_either() -> None:
    desk = GroupDesk()
    commit(desk)

    Consumer(desk, "first").join()

    assert kind(desk) is ConsumerGroup
    desk.reload()
    assert kind(desk) is ConsumerGroup


def test_a_classic_group_with_members_is_upgraded_when_a_consumer_joins_and_all_share() -> None:
    desk = GroupDesk()
    leader, follower = classic_pair(desk)
    newcomer = Consumer(desk, "new")

    assert newcomer.join().error_code == 0
    assert kind(desk) is ConsumerGroup
    assert newcomer.owned == {}
    for _ in range(4):
        leader.live(), follower.live(), newcomer.beat()

    owned = [leader.owned, follower.owned, newcomer.owned["orders"]]
    assert sorted(map(len, owned)) == [1, 1, 2]
    assert set().union(*owned) == {0, 1, 2, 3}
    types = {
        each.member_id: each.member_type for each in desk.read(lambda s: describe_consumer_group(s, GROUP)).members
    }
    assert types == {leader.member_id: 0, follower.member_id: 0, "new": 1}


def test_an_upgraded_group_outlives_a_reload() -> None:
    desk = GroupDesk()
    leader, follower = classic_pair(desk)
    newcomer = Consumer(desk, "new")
    newcomer.join()

    desk.reload()
    for _ in range(4):
        leader.live(), follower.live(), newcomer.beat()

    assert len(leader.owned) + len(follower.owned) + newcomer.count == 4


def test_those_that_wait_in_a_classic_group_are_sent_to_join_again_when_it_is_upgraded() -> None:
    desk = GroupDesk()
    leader, follower = classic_pair(desk)
    joining = leader.join()
    assert desk.waits(joining)

    Consumer(desk, "new").join()

    assert desk.answers[joining].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.join().error_code == follower.join().error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("settings", "how"),
    [
        (Settings(initial_rebalance_delay_ms=0, consumer_migration_policy=MigrationPolicy.DISABLED), {}),
        (Settings(initial_rebalance_delay_ms=0, consumer_migration_policy=MigrationPolicy.DOWNGRADE), {}),
        (Settings(initial_rebalance_delay_ms=0, consumer_group_size_max=0), {}),
        (QUICK, {"protocol_type": "connect"}),
    ],
)
def test_a_group_that_must_not_be_upgraded_is_left_alone(settings: Settings, how: dict[str, Any]) -> None:
    desk = GroupDesk(settings)
    (member,) = desk.stable_group(**how)

    answer = Consumer(desk, "new").join()

    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.heartbeat(member, 1) == ErrorCode.NONE


@pytest.mark.parametrize(
    "assignment",
    [b"nonsense", b"\x00\x00" + encode(ConsumerProtocolAssignment([], b"secret"), 0)],
)
def test_a_group_with_an_assignor_of_its_own_is_not_upgraded(assignment: bytes) -> None:
    desk = GroupDesk()
    member, _ = desk.new_member()
    desk.sync(member, 1, {member: assignment})

    answer = Consumer(desk, "new").join()

    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert kind(desk) is ClassicGroup


def test_a_consumer_group_whose_last_consumer_leaves_becomes_classic_again() -> None:
    desk = GroupDesk()
    leader, follower = classic_pair(desk)
    newcomer = Consumer(desk, "new")
    newcomer.join()
    for _ in range(4):
        leader.live(), follower.live(), newcomer.beat()
    generation = leader.generation

    newcomer.leave()

    assert kind(desk) is ClassicGroup
    group = desk.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation) == (State.PREPARING_REBALANCE, generation)
    waiting = leader.join()
    follower_answer = follower.join()
    assert desk.answers[waiting].generation_id == follower_answer.generation_id == generation + 1
    assert {each.member_id for each in (desk.answers[waiting].members or follower_answer.members)} == {
        leader.member_id,
        follower.member_id,
    }


def test_a_coordinator_that_takes_over_in_the_middle_of_a_downgrade_has_all_join_again() -> None:
    desk = GroupDesk()
    leader, follower = classic_pair(desk)
    newcomer = Consumer(desk, "new")
    newcomer.join()
    for _ in range(4):
        leader.live(), follower.live(), newcomer.beat()
    newcomer.leave()

    desk.reload()

    group = desk.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup) and group.state is State.STABLE
    assert [member.assignment[2:] for member in group.members.values()] == [
        given(orders=sorted(member.owned))[2:] for member in (leader, follower)
    ]
    assert desk.heartbeat(leader.member_id, leader.generation) == ErrorCode.ILLEGAL_GENERATION
    waiting = leader.join()
    assert desk.waits(waiting)
    assert follower.join().generation_id == desk.answers[waiting].generation_id


def test_when_downgrades_are_not_allowed_classic_members_stay_in_the_consumer_group() -> None:
    desk = GroupDesk(Settings(initial_rebalance_delay_ms=0, consumer_migration_policy=MigrationPolicy.UPGRADE))
    leader, follower = classic_pair(desk)
    newcomer = Consumer(desk, "new")
    newcomer.join()
    for _ in range(4):
        leader.live(), follower.live(), newcomer.beat()

    newcomer.leave()
    for _ in range(4):
        leader.live(), follower.live()

    assert kind(desk) is ConsumerGroup
    assert leader.owned | follower.owned == {0, 1, 2, 3}


def test_a_silent_consumer_makes_way_for_a_classic_group_too() -> None:
    desk = GroupDesk()
    leader, follower = classic_pair(desk)
    newcomer = Consumer(desk, "new")
    newcomer.join()
    for _ in range(10):
        leader.live(), follower.live()
        desk.pass_time(5_000)

    assert kind(desk) is ClassicGroup


def mixed(desk: GroupDesk) -> tuple[Classic, Consumer]:
    """A consumer group with one member of each kind."""
    consumer = Consumer(desk, "first")
    consumer.join()
    classic = Classic(desk)
    classic.join()
    classic.sync()
    for _ in range(3):
        consumer.beat(), classic.live()
    assert (len(classic.owned), consumer.count) == (2, 2)
    return classic, consumer


def test_a_classic_member_may_join_a_consumer_group() -> None:
    desk = GroupDesk()

    classic, consumer = mixed(desk)

    assert classic.owned | consumer.owned["orders"] == {0, 1, 2, 3}


def test_a_classic_member_of_a_consumer_group_commits_with_its_generation() -> None:
    desk = GroupDesk()
    classic, _ = mixed(desk)

    assert commit(desk, classic.member_id, classic.generation) == ErrorCode.NONE
    assert commit(desk, classic.member_id, classic.generation - 1) == ErrorCode.ILLEGAL_GENERATION


def test_a_classic_member_of_a_consumer_group_is_checked_as_in_any_group() -> None:
    desk = GroupDesk()
    classic, consumer = mixed(desk)

    assert desk.heartbeat("nobody", classic.generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(classic.member_id, classic.generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert desk.heartbeat(consumer.member_id, consumer.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    wrong = desk.sync(classic.member_id, classic.generation, protocol_name="range")
    assert desk.answers[wrong].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    strange = desk.answers[desk.join(protocol_type="connect")]
    assert strange.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.answers[desk.join(protocols=["range"])].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_that_does_not_join_again_in_time_is_out() -> None:
    desk = GroupDesk()
    classic, consumer = mixed(desk)
    third = Consumer(desk, "third")
    third.join()

    for _ in range(13):
        desk.pass_time(5_000)
        error = desk.heartbeat(classic.member_id, classic.generation)
        consumer.beat(), third.beat()

    assert error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_never_asks_for_its_assignment_is_out() -> None:
    desk = GroupDesk()
    consumer = Consumer(desk, "first")
    consumer.join()
    classic = Classic(desk)
    classic.join()

    for _ in range(13):
        desk.pass_time(5_000)
        desk.heartbeat(classic.member_id, classic.generation)
        consumer.beat()

    assert set(desk.shard.groups[GROUP].members) == {"first"}


def test_a_silent_classic_member_is_out_after_its_own_session_timeout() -> None:
    desk = GroupDesk()
    _, consumer = mixed(desk)

    desk.pass_time(10_000)
    settle(consumer)

    assert consumer.count == 4


def test_classic_members_leave_a_consumer_group_several_at_once() -> None:
    desk = GroupDesk()
    classic, consumer = mixed(desk)

    answer = desk.answers[desk.leave(classic.member_id, "nobody")]

    assert [each.error_code for each in answer.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    settle(consumer)
    assert consumer.count == 4


def test_a_static_member_may_change_its_protocol_when_it_starts_again() -> None:
    desk = GroupDesk()
    consumer = Consumer(desk, "first")
    consumer.join()
    static = Classic(desk, instance_id="shelf")
    static.join()
    static.sync()
    for _ in range(3):
        consumer.beat(), static.live()

    changed = Consumer(desk, "changed", instance_id="shelf")
    answer = changed.join()
    settle(consumer, changed)

    assert answer.error_code == 0
    assert (changed.owned["orders"], consumer.count) == (static.owned, 2)
    assert desk.answers[desk.leave(("", "shelf"))].members[0].error_code == 0


def test_what_a_leader_wrote_is_read_and_written_by_name() -> None:
    image = cluster({"orders": 4})
    owned = read_assignment(given(orders=[1, 2], gone=[0]), image)

    assert [sorted(partitions) for partitions in owned.values()] == [[1, 2]]
    assert write_assignment(owned, image, 0) == given(orders=[1, 2])
    assert read_assignment(b"", image) == NOTHING


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\xff\xff", b"\x00\x00\x00\x00\x00\x09"])
def test_bytes_that_are_no_subscription_are_malformed(metadata: bytes) -> None:
    with pytest.raises(Malformed):
        subscription_of(metadata)
