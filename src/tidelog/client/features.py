"""The blocking client for features (KIP-584): what brokers can run with, what the cluster has agreed on, changes of it.

Used by `tidelog cluster features` and `kafka-features`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from tidelog.client.cluster import Cluster
from tidelog.client.deadline import Deadline
from tidelog.client.errors import Rejected, check, rejection
from tidelog.model.version import __version__
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


@dataclass(frozen=True, slots=True)
class Feature:
    """The levels that the broker which was asked supports, and the one that the cluster has."""

    name: str
    lowest: int
    highest: int
    level: int


@dataclass(frozen=True, slots=True)
class Features:
    """All features, by name, as of an offset of the metadata log."""

    epoch: int
    features: tuple[Feature, ...]


class Direction(IntEnum):
    """What a change may do. SAFE_DOWNGRADE loses nothing that is known of the cluster, UNSAFE_DOWNGRADE may."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def describe_features(cluster: Cluster) -> Features:
    """Ask any broker."""
    request = ApiVersionsRequest("tidelog", __version__)

    def ask(deadline: Deadline) -> Features:
        answer = cluster.call_any(request, ApiVersionsResponse, deadline)
        check(answer.error_code)
        levels = {one.name: one.max_version_level for one in answer.finalized_features}
        supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
        rows = (Feature(name, *supported.get(name, (0, 0)), levels.get(name, 0)) for name in {**supported, **levels})
        return Features(answer.finalized_features_epoch, tuple(sorted(rows, key=lambda feature: feature.name)))

    return cluster.retry(ask)


def update_features(
    cluster: Cluster, levels: Mapping[str, int], direction: Direction, *, dry_run: bool = False
) -> dict[str, Rejected | None]:
    """Set the levels of features, all of them or none; 0 disables one. What was refused has its reason."""
    updates = [FeatureUpdateKey(name, level, upgrade_type=direction) for name, level in levels.items()]

    def ask(deadline: Deadline) -> dict[str, Rejected | None]:
        request = UpdateFeaturesRequest(int(deadline.remaining_s() * 1000), updates, dry_run)
        answer = cluster.call_controller(request, UpdateFeaturesResponse, deadline)
        refused = rejection(answer.error_code, answer.error_message)
        if refused is not None and refused.retriable:
            raise refused
        results = {one.feature: rejection(one.error_code, one.error_message) for one in answer.results}
        return {name: results.get(name) or refused for name in levels}

    return cluster.retry(ask)
