"""An embedded broker for all tests of this folder, and a raw connection to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidelog
from harness.raw_client import RawClient


@pytest.fixture(scope="module")
def embedded() -> Iterator[tidelog.Broker]:
    with tidelog.Broker() as broker:
        yield broker


@pytest.fixture
def client(embedded: tidelog.Broker) -> Iterator[RawClient]:
    with RawClient(embedded.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of its own for each test."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:200]
