"""Features: what this software can run with, what the cluster has agreed on, and the first records of an empty log.

ApiVersions advertises SUPPORTED and the features of the image. A feature is listed here only when all of it is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.controller.state import Controller
from tidelog.machine.runtime import Result
from tidelog.metadata.image import BrokerRegistration, ClusterImage, FeatureRange
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.metadata_records import FeatureLevelRecord
from tidelog.wire.schema import Message

METADATA_VERSION: Final = "metadata.version"
# The levels of Kafka 4.0-IV3 and 4.2-IV1: all records have their newest form in each of them.
METADATA_VERSION_LOWEST: Final = 25
METADATA_VERSION_HIGHEST: Final = 29
# KIP-966; not SUPPORTED until brokers act on it, but elections already obey it.
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"

# From level 2 on producers get a new epoch with every end of a transaction, and need not add partitions (KIP-890).
TRANSACTION_VERSION: Final = "transaction.version"
TRANSACTION_VERSION_HIGHEST: Final = 2

# Consumer groups whose assignments are made by the coordinator (KIP-848).
GROUP_VERSION: Final = "group.version"
GROUP_VERSION_HIGHEST: Final = 1

SUPPORTED: Final[Mapping[str, FeatureRange]] = {
    METADATA_VERSION: FeatureRange(METADATA_VERSION_LOWEST, METADATA_VERSION_HIGHEST),
    TRANSACTION_VERSION: FeatureRange(0, TRANSACTION_VERSION_HIGHEST),
    GROUP_VERSION: FeatureRange(0, GROUP_VERSION_HIGHEST),
}


def bootstrap_records() -> list[Message]:
    """What is written to an empty log before anything else: the newest level of each feature."""
    return [FeatureLevelRecord(name=name, feature_level=levels.highest) for name, levels in SUPPORTED.items()]


def bootstrap(controller: Controller) -> Result[Message, None]:
    """The first command of a leader: an empty cluster gets its features, any other is left as it is."""
    started = METADATA_VERSION in controller.image.features
    return Result([] if started else bootstrap_records(), None)


def check_broker_features(image: ClusterImage, broker: BrokerRegistration) -> None:
    """A broker may only join if it can run with each feature at the level the cluster has agreed on."""
    for name, level in image.features.items():
        lowest, highest = broker.features.get(name, FeatureRange(0, 0))
        if not lowest <= level <= highest:
            raise ProtocolError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The cluster runs with {name} {level}, but broker {broker.broker_id} supports {lowest} to {highest}.",
            )
