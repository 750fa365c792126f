from __future__ import annotations

import pytest

from tidelog.controller.features import METADATA_VERSION_HIGHEST, METADATA_VERSION_LOWEST, SUPPORTED
from tidelog.model.metadata_versions import (
    METADATA_VERSION_NAMES,
    level_of_release,
    levels_of_release,
    show_level,
)


@pytest.mark.parametrize(
    ("name", "level"),
    [("4.2-IV1", 29), ("4.2", 29), ("4.2.1", 29), ("4.1-IV0", 26), ("4.0", 25), ("3.3", 7), ("9.9", None), ("4", None)],
)
def test_a_release_stands_for_its_newest_level(name: str, level: int | None) -> None:
    assert level_of_release(name) == level


def test_the_newest_release_has_the_levels_that_a_new_cluster_gets() -> None:
    newest = levels_of_release(max(METADATA_VERSION_NAMES))
    assert {name: newest[name] for name in SUPPORTED} == {name: levels.highest for name, levels in SUPPORTED.items()}


def test_levels_are_shown_by_name_where_they_have_one() -> None:
    assert show_level("metadata.version", METADATA_VERSION_LOWEST) == "4.0-IV3"
    assert show_level("metadata.version", METADATA_VERSION_HIGHEST) == "4.2-IV1"
    assert show_level("transaction.version", 2) == "2"
