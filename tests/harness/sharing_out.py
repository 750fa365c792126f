"""How `pytest -n` shares tests out among its workers.

A file is run by one of them, so that its broker is started once; all of Spark's by one, so that its JVM is; what takes
longest begins first, so that nobody is left alone with it at the end.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SPARK: Final = "tests/spark/"
# Files that take long, longest first. A wrong order costs time, nothing else.
SLOW: Final = (SPARK, "tests/clients/", "tests/simulation/")


class SharingOut(LoadFileScheduling):
    """Work in whole files, Spark's as one piece, in the order in which it was collected."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # It means by the number of tests, which says nothing about time.

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else str(super()._split_scope(nodeid))


def longest_first(items: list[pytest.Item]) -> None:
    """Bring what was collected into the order in which workers take it."""
    items.sort(key=lambda item: next((at for at, name in enumerate(SLOW) if item.nodeid.startswith(name)), len(SLOW)))
