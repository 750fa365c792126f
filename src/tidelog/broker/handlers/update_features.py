"""UpdateFeatures (key 57), v0-v2: raise or lower what the cluster has agreed on (KIP-584). v1: dry runs and the kind of
a downgrade. v2: one error for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.features import Direction, FeatureUpdate, update_features
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

FIRST_VERSION_WITHOUT_RESULTS: Final = 2


class UpdateFeaturesHandler:
    def __init__(self, commands: Commands, kraft_version: Callable[[], int]) -> None:
        self._commands = commands
        self._kraft_version = kraft_version

    def __call__(self, call: Call, request: UpdateFeaturesRequest) -> None:
        version = call.header.api_version
        updates = [
            FeatureUpdate(one.feature, one.max_version_level, _direction(one, version))
            for one in request.feature_updates
        ]

        def answer(outcome: ProtocolError | None) -> None:
            code, message = (ErrorCode.NONE, None) if outcome is None else (outcome.code, outcome.message)
            results = [UpdatableFeatureResult(update.name, code, message) for update in updates]
            if version >= FIRST_VERSION_WITHOUT_RESULTS:
                results = []
            call.answer(UpdateFeaturesResponse(0, code, message, results))

        self._commands.submit(
            lambda controller: update_features(
                controller, updates, validate_only=request.validate_only, kraft_version=self._kraft_version()
            ),
            answer,
        )


def _direction(update: FeatureUpdateKey, version: int) -> int:
    """The oldest version has a flag instead."""
    if version == 0:
        return Direction.SAFE_DOWNGRADE if update.allow_downgrade else Direction.UPGRADE
    return update.upgrade_type
