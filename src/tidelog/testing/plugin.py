"""The pytest plugin: the fixture `tidelog_broker`, a real broker for the test session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing.embedded import Broker


@pytest.fixture(scope="session")
def tidelog_broker() -> Iterator[Broker]:
    """A broker that all tests of the session share: use topic names of your own in each test."""
    from tidelog.testing.embedded import Broker

    with Broker() as broker:
        yield broker
