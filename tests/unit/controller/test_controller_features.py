from __future__ import annotations

import pytest

from harness.controller_desk import Desk
from tidelog.controller.features import (
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    METADATA_VERSION,
    SUPPORTED,
    Direction,
    FeatureUpdate,
    update_features,
)
from tidelog.model.errors import ErrorCode, ProtocolError


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
