"""Features: what this software can run with, what the cluster has agreed on, and the first records of an empty log.

ApiVersions tells of ADVERTISED and the features of the image. A feature is listed here only when all of it is served.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.controller.state import Controller
from tidelog.machine.runtime import Result
from tidelog.metadata.image import ClusterImage, FeatureRange
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.metadata_records import FeatureLevelRecord
from tidelog.wire.schema import Message

METADATA_VERSION: Final = "metadata.version"
# The levels of Kafka 4.0-IV3 and 4.2-IV1: all records have their newest form in each of them.
METADATA_VERSION_LOWEST: Final = 25
METADATA_VERSION_HIGHEST: Final = 29
# Who may lead without loss when too few are in sync is remembered (KIP-966).
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
ELIGIBLE_LEADER_REPLICAS_HIGHEST: Final = 1

# From level 2 on producers get a new epoch with every end of a transaction, and need not add partitions (KIP-890).
TRANSACTION_VERSION: Final = "transaction.version"
TRANSACTION_VERSION_HIGHEST: Final = 2

# Consumer groups whose assignments are made by the coordinator (KIP-848).
GROUP_VERSION: Final = "group.version"
GROUP_VERSION_HIGHEST: Final = 1

# Whether the voters of the quorum are a setting (0) or records in its log (1, KIP-853). The quorum decides it when the
# cluster is made, and keeps it itself: it is never among the features of the image.
KRAFT_VERSION: Final = "kraft.version"
KRAFT_VERSION_HIGHEST: Final = 1

SUPPORTED: Final[Mapping[str, FeatureRange]] = {
    METADATA_VERSION: FeatureRange(METADATA_VERSION_LOWEST, METADATA_VERSION_HIGHEST),
    TRANSACTION_VERSION: FeatureRange(0, TRANSACTION_VERSION_HIGHEST),
    GROUP_VERSION: FeatureRange(0, GROUP_VERSION_HIGHEST),
    ELIGIBLE_LEADER_REPLICAS: FeatureRange(0, ELIGIBLE_LEADER_REPLICAS_HIGHEST),
}
# What nodes tell each other and their clients.
ADVERTISED: Final[Mapping[str, FeatureRange]] = {**SUPPORTED, KRAFT_VERSION: FeatureRange(0, KRAFT_VERSION_HIGHEST)}


class Direction(IntEnum):
    """What a change of a feature's level may do, as in UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    name: str
    level: int
    direction: int


def bootstrap_records() -> list[Message]:
    """What is written to an empty log before anything else: the newest level of each feature."""
    return [FeatureLevelRecord(name=name, feature_level=levels.highest) for name, levels in SUPPORTED.items()]


def bootstrap(controller: Controller) -> Result[Message, None]:
    """The first command of a leader: an empty cluster gets its features, any other is left as it is."""
    started = METADATA_VERSION in controller.image.features
    return Result([] if started else bootstrap_records(), None)


def update_features(
    controller: Controller, updates: Sequence[FeatureUpdate], *, validate_only: bool, kraft_version: int = 0
) -> Result[Message, ProtocolError | None]:
    """Set the levels of some features, all of them or none (UpdateFeatures); `kraft_version` is what the quorum has."""
    try:
        for update in updates:
            if update.name == KRAFT_VERSION:
                _check_kraft_version(update.level, kraft_version)
            else:
                _check_update(controller.image, update)
        if len({update.name for update in updates}) != len(updates):
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "A feature is named more than once.")
    except ProtocolError as error:
        return Result([], error)
    if validate_only:
        return Result([], None)
    records = [
        FeatureLevelRecord(name=update.name, feature_level=update.level)
        for update in updates
        if update.name != KRAFT_VERSION
    ]
    return Result(records, None)


def _check_kraft_version(level: int, current: int) -> None:
    if level != current:
        raise ProtocolError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"{KRAFT_VERSION} is at level {current} since the cluster was made, and stays there.",
        )


def _check_update(image: ClusterImage, update: FeatureUpdate) -> None:
    name, level, direction = update
    if direction not in tuple(Direction):
        raise ProtocolError(ErrorCode.INVALID_UPDATE_VERSION, f"{direction} is no way to change the level of {name}.")
    supported = SUPPORTED.get(name)
    if supported is None:
        raise ProtocolError(ErrorCode.INVALID_UPDATE_VERSION, f"The controller does not support the feature {name}.")
    current = image.features.get(name, 0)
    if level < current and direction == Direction.UPGRADE:
        raise ProtocolError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"{name} is at level {current}: {level} is a downgrade, and none was asked for.",
        )
    if level > current and direction != Direction.UPGRADE:
        raise ProtocolError(ErrorCode.INVALID_UPDATE_VERSION, f"{name} is at level {current}: {level} is no downgrade.")
    ranges = [("the controller", supported)]
    ranges += [
        (f"broker {node}", broker.features.get(name, FeatureRange(0, 0))) for node, broker in image.brokers.items()
    ]
    ranges += [
        (f"controller {node}", one.features.get(name, FeatureRange(0, 0))) for node, one in image.controllers.items()
    ]
    for who, (lowest, highest) in ranges:
        if not lowest <= level <= highest:
            raise ProtocolError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"{name} {level} is out of reach: {who} supports {lowest} to {highest}.",
            )


def check_supports(image: ClusterImage, who: str, features: Mapping[str, FeatureRange]) -> None:
    """A node may only join if it can run with each feature at the level the cluster has agreed on."""
    for name, level in image.features.items():
        lowest, highest = features.get(name, FeatureRange(0, 0))
        if not lowest <= level <= highest:
            raise ProtocolError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The cluster runs with {name} {level}, but {who} supports {lowest} to {highest}.",
            )
