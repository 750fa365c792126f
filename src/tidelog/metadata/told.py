"""What nodes tell of themselves when they register, brokers and controllers alike, as the image keeps it.

The same in requests and in records, whose classes differ by their names alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

from tidelog.metadata.image import Endpoint, FeatureRange


class ToldListener(Protocol):
    name: str
    host: str
    port: int
    security_protocol: int


class ToldFeature(Protocol):
    name: str
    min_supported_version: int
    max_supported_version: int


def endpoints_of(told: Iterable[ToldListener]) -> Mapping[str, Endpoint]:
    """Where a node listens, by the names of its listeners."""
    return MappingProxyType({one.name: Endpoint(one.name, one.host, one.port, one.security_protocol) for one in told})


def features_of(told: Iterable[ToldFeature]) -> Mapping[str, FeatureRange]:
    """Which levels of each feature a node can run with."""
    return MappingProxyType(
        {one.name: FeatureRange(one.min_supported_version, one.max_supported_version) for one in told}
    )
