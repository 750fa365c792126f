"""The pytest plugin: the fixtures `tidelog_broker` and `tidelog_cluster`, real brokers for tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.cluster import Cluster
    from tidelog.testing.embedded import Broker


@pytest.fixture(scope="session")
def tidelog_broker() -> Iterator[Broker]:
    """A broker that all tests of the session share: use topic names of your own in each test."""
    from tidelog.testing.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def tidelog_cluster() -> Iterator[Cluster]:
    """Three brokers for one test, which may kill, pause and cut them as it likes."""
    from tidelog.testing.cluster import Cluster

    with Cluster(3) as cluster:
        yield cluster
