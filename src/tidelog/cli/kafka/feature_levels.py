"""Levels of features as people write them, for kafka-features and kafka-storage."""

from __future__ import annotations

from tidelog.cli.failures import BadInput
from tidelog.model.metadata_versions import METADATA_VERSION_NAMES, level_of_release


def level_of(text: str) -> tuple[str, int]:
    """A feature and its level, from `name=level`."""
    name, equals, level = text.partition("=")
    if not equals:
        raise BadInput(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), int(level)
    except ValueError:
        raise BadInput(
            f"Can't parse feature=level string {text}: unable to parse {level.strip()} as a short."
        ) from None


def release_of(text: str) -> int:
    """The level of metadata.version that a release has."""
    level = level_of_release(text)
    if level is None:
        known = ", ".join(METADATA_VERSION_NAMES.values())
        raise BadInput(f"Unknown metadata.version '{text}'. Supported metadata.version are: {known}")
    return level
