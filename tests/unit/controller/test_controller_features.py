from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import pytest

from harness.controller_desk import Desk
from tidelog.controller.controllers import register_controller
from tidelog.controller.features import (
    ADVERTISED,
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED,
    Direction,
    FeatureUpdate,
    update_features,
)
from tidelog.metadata.image import ControllerRegistration, Endpoint, FeatureRange
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId


def updated(desk: Desk, *updates: FeatureUpdate, validate_only: bool = False) -> ErrorCode:
    outcome = desk.run(update_features, updates, validate_only=validate_only)
    assert outcome is None or isinstance(outcome, ProtocolError)
    return ErrorCode.NONE if outcome is None else outcome.code


def test_a_level_goes_down_and_up_again() -> None:
    desk = Desk(nodes=(1, 2))
    assert updated(desk, FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 0, Direction.SAFE_DOWNGRADE)) == ErrorCode.NONE
    assert ELIGIBLE_LEADER_REPLICAS not in desk.image.features
    assert updated(desk, FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 1, Direction.UPGRADE)) == ErrorCode.NONE
    assert desk.image.features[ELIGIBLE_LEADER_REPLICAS] == 1


@pytest.mark.parametrize(
    "update",
    [
        pytest.param(FeatureUpdate("no.such.feature", 1, Direction.UPGRADE), id="unknown"),
        pytest.param(FeatureUpdate(METADATA_VERSION, 1000, Direction.UPGRADE), id="too high"),
        pytest.param(FeatureUpdate(METADATA_VERSION, 1, Direction.UNSAFE_DOWNGRADE), id="too low"),
        pytest.param(FeatureUpdate(GROUP_VERSION, 0, Direction.UPGRADE), id="a downgrade that was not asked for"),
        pytest.param(FeatureUpdate(GROUP_VERSION, 1, 7), id="no direction"),
    ],
)
def test_a_bad_update_changes_nothing_not_even_what_was_good_beside_it(update: FeatureUpdate) -> None:
    desk = Desk(nodes=(1, 2))
    before = dict(desk.image.features)
    good = FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 0, Direction.SAFE_DOWNGRADE)
    assert updated(desk, good, update) == ErrorCode.INVALID_UPDATE_VERSION
    assert dict(desk.image.features) == before == {name: levels.highest for name, levels in SUPPORTED.items()}


def test_a_dry_run_changes_nothing() -> None:
    desk = Desk(nodes=(1,))
    update = FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 0, Direction.SAFE_DOWNGRADE)
    assert updated(desk, update, validate_only=True) == ErrorCode.NONE
    assert desk.image.features[ELIGIBLE_LEADER_REPLICAS] == 1


def test_a_controller_that_registers_is_known_and_costs_one_record_for_each_incarnation() -> None:
    desk = Desk(nodes=(1,))
    before = len(desk.log)
    first = controller_registration(incarnation=1)
    desk.run(register_controller, first)
    desk.run(register_controller, first)
    assert desk.image.controllers == {9: first}
    assert len(desk.log) == before + 1
    second = controller_registration(incarnation=2)
    desk.run(register_controller, second)
    assert desk.image.controllers == {9: second}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({"endpoints": {}}, ErrorCode.INVALID_REGISTRATION, id="nowhere"),
        pytest.param({"features": {}}, ErrorCode.UNSUPPORTED_VERSION, id="no metadata version"),
    ],
)
def test_a_controller_that_cannot_take_part_is_refused(changes: dict[str, object], code: ErrorCode) -> None:
    desk = Desk(nodes=(1,))
    with pytest.raises(ProtocolError) as caught:
        desk.run(register_controller, controller_registration(**changes))
    assert caught.value.code is code
    assert not desk.image.controllers


def test_no_level_goes_beyond_what_a_registered_controller_supports() -> None:
    desk = Desk(nodes=(1,))
    assert updated(desk, FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 0, Direction.SAFE_DOWNGRADE)) == ErrorCode.NONE
    old = {**ADVERTISED, ELIGIBLE_LEADER_REPLICAS: FeatureRange(0, 0)}
    desk.run(register_controller, controller_registration(features=old))
    upgrade = FeatureUpdate(ELIGIBLE_LEADER_REPLICAS, 1, Direction.UPGRADE)
    assert updated(desk, upgrade) == ErrorCode.INVALID_UPDATE_VERSION
    desk.run(register_controller, controller_registration(incarnation=2))
    assert updated(desk, upgrade) == ErrorCode.NONE


def test_the_level_of_the_quorum_itself_can_be_confirmed_and_not_changed() -> None:
    desk = Desk(nodes=(1,))
    same = FeatureUpdate(KRAFT_VERSION, 1, Direction.UPGRADE)
    assert desk.run(update_features, [same], validate_only=False, kraft_version=1) is None
    assert KRAFT_VERSION not in desk.image.features
    refused = desk.run(update_features, [same], validate_only=False, kraft_version=0)
    assert isinstance(refused, ProtocolError) and refused.code is ErrorCode.INVALID_UPDATE_VERSION


def controller_registration(incarnation: int = 1, **changes: Any) -> ControllerRegistration:
    registration = ControllerRegistration(
        controller_id=NodeId(9),
        incarnation_id=UUID(int=incarnation),
        endpoints={"CONTROLLER": Endpoint("CONTROLLER", "localhost", 9093)},
        features=ADVERTISED,
    )
    return msgspec.structs.replace(registration, **changes)
