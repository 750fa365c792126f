from __future__ import annotations

from uuid import UUID

import msgspec
import pytest

from harness.controller_desk import CountingEntropy, Desk
from tidelog.controller import brokers, producer_ids
from tidelog.controller.features import (
    ELIGIBLE_LEADER_REPLICAS,
    METADATA_VERSION,
    SUPPORTED,
    Direction,
    FeatureUpdate,
    bootstrap,
    update_features,
)
from tidelog.controller.state import Controller, Policy
from tidelog.controller.topics import NewTopic, create
from tidelog.machine.runtime import Result
from tidelog.metadata.image import FeatureRange
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_NODE, NodeId, Offset
from tidelog.wire.messages.metadata_records import PartitionChangeRecord

ONE, TWO = NodeId(1), NodeId(2)


def refused(desk: Desk, command: object, *args: object, **options: object) -> ErrorCode:
    with pytest.raises(ProtocolError) as error:
        desk.run(command, *args, **options)  # type: ignore[arg-type]
    return error.value.code


def test_an_empty_log_begins_with_the_feature_levels_and_no_other_does() -> None:
    desk = Desk(nodes=())

    assert desk.image.features == {name: levels.highest for name, levels in SUPPORTED.items()}
    desk.run(bootstrap)
    assert len(desk.log) == len(SUPPORTED)


def test_a_broker_is_fenced_until_it_has_seen_its_own_registration() -> None:
    desk = Desk(nodes=())
    epoch = desk.run(brokers.register, desk.registration(1), 0)
    assert desk.image.brokers[ONE].fenced

    behind = desk.run(brokers.heartbeat, ONE, epoch, 0, metadata_offset=Offset(epoch - 1))
    assert (behind.caught_up, behind.fenced) == (False, True)
    caught_up = desk.run(brokers.heartbeat, ONE, epoch, 0, metadata_offset=Offset(epoch))

    assert (caught_up.caught_up, caught_up.fenced) == (True, False)
    assert desk.image.brokers[ONE].active


def test_the_epoch_of_a_broker_is_the_offset_of_its_registration() -> None:
    desk = Desk(nodes=(1, 2))
    desk.run(create, [NewTopic("orders", 4, 2)])
    desk.now_ms += 60_000

    epoch = desk.run(brokers.register, desk.registration(1), desk.now_ms)

    assert desk.log[epoch].broker_epoch == epoch  # type: ignore[attr-defined]


def test_a_broker_that_a_new_controller_has_not_heard_of_may_be_started_again_at_once() -> None:
    desk = Desk(nodes=(1, 2))
    epoch = desk.image.brokers[TWO].epoch
    desk.controller = Controller(Policy(), CountingEntropy(), desk.image)
    desk.run(brokers.fence_silent, 0)
    desk.run(brokers.heartbeat, TWO, epoch, 1, metadata_offset=Offset(epoch))

    desk.run(brokers.register, desk.registration(1), 2)

    assert desk.image.brokers[ONE].fenced, "another incarnation, that is not caught up"
    assert refused(desk, brokers.register, desk.registration(2), 2) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_a_broker_that_a_new_controller_has_not_heard_of_has_a_whole_session_to_say_so() -> None:
    desk = Desk(nodes=(1,))
    desk.controller = Controller(Policy(), CountingEntropy(), desk.image)
    assert desk.run(brokers.fence_silent, 100) is None
    assert desk.run(brokers.fence_silent, 9_099) is None
    assert desk.run(brokers.fence_silent, 9_100) == ONE


@pytest.mark.req("F12")
def test_a_second_broker_with_the_same_id_is_refused_while_the_first_is_alive() -> None:
    desk = Desk(nodes=(1,))

    assert refused(desk, brokers.register, desk.registration(1), 8_999) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert desk.run(brokers.register, desk.registration(1), 9_000) > 0


def test_registering_again_as_the_same_incarnation_keeps_epoch_and_state() -> None:
    desk = Desk(nodes=())
    registration = desk.registration(1)
    epoch = desk.run(brokers.register, registration, 0)
    desk.beat(1)

    again = desk.run(brokers.register, msgspec.structs.replace(registration, rack="b"), 1)

    assert again == epoch
    assert desk.image.brokers[ONE].active
    assert desk.image.brokers[ONE].rack == "b"


def test_a_stale_epoch_is_refused() -> None:
    desk = Desk(nodes=(1,))

    assert refused(desk, brokers.heartbeat, ONE, 77, 0, metadata_offset=Offset(0)) is ErrorCode.STALE_BROKER_EPOCH
    assert refused(desk, brokers.heartbeat, TWO, 1, 0, metadata_offset=Offset(0)) is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"directories": ()}, ErrorCode.INVALID_REGISTRATION, id="no directory"),
        pytest.param({"directories": (UUID(int=1),)}, ErrorCode.INVALID_REGISTRATION, id="reserved directory"),
        pytest.param({"directories": (UUID(int=77),) * 2}, ErrorCode.INVALID_REGISTRATION, id="directory twice"),
        pytest.param({"directories": (UUID(int=9001),)}, ErrorCode.INVALID_REGISTRATION, id="another's directory"),
        pytest.param({"features": {}}, ErrorCode.UNSUPPORTED_VERSION, id="no metadata version"),
        pytest.param({"features": {METADATA_VERSION: FeatureRange(1, 7)}}, ErrorCode.UNSUPPORTED_VERSION, id="too old"),
    ],
)
def test_a_registration_that_does_not_fit_is_refused(change: dict[str, object], code: ErrorCode) -> None:
    desk = Desk(nodes=(1,))

    assert refused(desk, brokers.register, msgspec.structs.replace(desk.registration(2), **change), 0) is code


@pytest.mark.req("F9", "G1")
def test_a_silent_broker_is_fenced_and_its_partitions_are_led_by_others() -> None:
    desk = Desk(nodes=(1, 2, 3))
    desk.run(create, [NewTopic("orders", assignments=[(0, [1, 2, 3]), (1, [2, 3, 1])])])
    desk.now_ms = 5_000
    desk.beat(2)
    desk.beat(3)

    assert desk.run(brokers.fence_silent, 8_999) is None
    assert desk.run(brokers.fence_silent, 9_000) == ONE
    assert desk.run(brokers.fence_silent, 9_000) is None

    assert desk.image.brokers[ONE].fenced
    assert (desk.partition("orders", 0).leader, desk.partition("orders", 0).isr) == (2, (2, 3))
    assert desk.partition("orders", 0).leader_epoch == 1
    assert (desk.partition("orders", 1).leader, desk.partition("orders", 1).isr) == (2, (2, 3))
    assert desk.partition("orders", 1).leader_epoch == 0


def test_a_new_controller_gives_every_broker_a_full_session() -> None:
    desk = Desk(nodes=(1,))
    desk.controller = Controller(desk.controller.policy, desk.controller.entropy, desk.image)

    assert desk.run(brokers.fence_silent, 50_000) is None
    assert desk.run(brokers.fence_silent, 58_999) is None
    assert desk.run(brokers.fence_silent, 59_000) == ONE


@pytest.mark.req("G3")
@pytest.mark.parametrize("remembers_eligible_leaders", [True, False])
def test_when_all_brokers_are_fenced_nobody_leads_until_the_last_in_sync_returns(
    remembers_eligible_leaders: bool,
) -> None:
    desk = Desk(nodes=(1, 2))
    if not remembers_eligible_leaders:
        update = FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 0, Direction.SAFE_DOWNGRADE)
        desk.run(update_features, [update], validate_only=False)
    desk.run(create, [NewTopic("orders", assignments=[(0, [1, 2])])])
    desk.beat(1, want_fence=True)
    desk.beat(2, want_fence=True)
    partition = desk.partition("orders")
    last = partition.eligible_leader_replicas if remembers_eligible_leaders else partition.isr
    assert (partition.leader, last) == (NO_NODE, (2,))

    desk.beat(1)
    assert desk.partition("orders").leader == NO_NODE
    desk.beat(2)

    assert desk.partition("orders").leader == 2


@pytest.mark.req("G2")
@pytest.mark.parametrize("allowed", [False, True])
def test_unclean_election_happens_only_where_the_topic_allows_it(allowed: bool) -> None:
    desk = Desk(nodes=(1, 2))
    settings = [("unclean.leader.election.enable", str(allowed).lower())]
    desk.run(create, [NewTopic("orders", assignments=[(0, [1, 2])], settings=settings)])
    desk.beat(1, want_fence=True)
    desk.beat(2, want_fence=True)

    desk.beat(1)

    assert desk.partition("orders").leader == (1 if allowed else NO_NODE)


def test_a_new_controller_finishes_the_elections_that_another_began() -> None:
    desk = Desk(nodes=(1,))
    desk.run(create, [NewTopic("orders", 2, 1)])
    desk.beat(1, want_fence=True)
    # The controller failed after the first record of what it wanted to write.
    unfenced = brokers.heartbeat(desk.controller, ONE, desk.image.brokers[ONE].epoch, 0, metadata_offset=Offset(99))
    desk.run(lambda controller: Result(unfenced.records[:1], None))
    assert desk.partition("orders").leader == NO_NODE

    desk.run(brokers.elect_leaderless)

    assert [desk.partition("orders", index).leader for index in (0, 1)] == [1, 1]


def test_controlled_shutdown_moves_leadership_first_and_lets_go_when_all_others_know() -> None:
    desk = Desk(nodes=(1, 2))
    desk.run(create, [NewTopic("orders", assignments=[(0, [1, 2]), (1, [2, 1])])])

    first = desk.beat(1, want_shut_down=True)
    assert not first.should_shut_down
    assert [desk.partition("orders", index).leader for index in (0, 1)] == [2, 2]
    assert not desk.beat(1, want_shut_down=True).should_shut_down
    desk.beat(2)
    last = desk.beat(1, want_shut_down=True)

    assert (last.should_shut_down, last.fenced) == (True, True)
    assert desk.image.brokers[ONE].fenced


def test_a_broker_that_leads_nothing_may_go_at_once() -> None:
    desk = Desk(nodes=(1, 2))

    assert desk.beat(1, want_shut_down=True).should_shut_down


def test_a_new_incarnation_leaves_the_isr_and_its_leaderships() -> None:
    desk = Desk(nodes=(1, 2))
    desk.run(create, [NewTopic("orders", assignments=[(0, [1, 2])])])

    desk.run(brokers.register, desk.registration(1), 60_000)

    assert (desk.partition("orders").leader, desk.partition("orders").isr) == (2, (2,))


def test_a_broker_that_restarts_ready_leads_again_in_a_new_epoch_by_one_record() -> None:
    desk = Desk(nodes=(1,))
    desk.run(create, [NewTopic("orders", 3, 1)])
    written = len(desk.log)

    desk.run(brokers.register, desk.registration(1), 60_000, ready=True)

    assert desk.image.brokers[ONE].active
    assert [desk.partition("orders", index).leader for index in range(3)] == [1, 1, 1]
    assert [desk.partition("orders", index).leader_epoch for index in range(3)] == [1, 1, 1]
    assert sum(isinstance(record, PartitionChangeRecord) for record in desk.log[written:]) == 3


def test_a_broker_that_restarts_ready_does_not_take_back_what_others_can_lead() -> None:
    desk = Desk(nodes=(1, 2))
    desk.run(create, [NewTopic("orders", assignments=[(0, [1, 2])])])

    desk.run(brokers.register, desk.registration(1), 60_000, ready=True)

    assert (desk.partition("orders").leader, desk.partition("orders").isr) == (2, (2,))


def test_an_unregistered_broker_is_forgotten() -> None:
    desk = Desk(nodes=(1, 2))

    desk.run(brokers.unregister, TWO)

    assert TWO not in desk.image.brokers
    assert refused(desk, brokers.unregister, TWO) is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_no_producer_id_is_given_twice() -> None:
    desk = Desk(nodes=(1, 2))
    epochs = {node: desk.image.brokers[node].epoch for node in (ONE, TWO)}

    blocks = [desk.run(producer_ids.allocate, node, epochs[node]) for node in (ONE, TWO, ONE)]

    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert refused(desk, producer_ids.allocate, ONE, 99) is ErrorCode.STALE_BROKER_EPOCH
