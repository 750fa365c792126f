"""The names that Kafka's releases gave to the levels of the feature `metadata.version`. Read by the commands alone."""

from __future__ import annotations

from typing import Final

METADATA_VERSION: Final = "metadata.version"
# By level; the last of a release is what the release itself stands for.
METADATA_VERSION_NAMES: Final = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
}
# The level that each other feature has in a release, from that level of `metadata.version` on, newest first.
RELEASE_LEVELS: Final = {
    "kraft.version": ((21, 1),),
    "transaction.version": ((24, 2),),
    "group.version": ((22, 1),),
    "eligible.leader.replicas.version": ((26, 1),),
    "share.version": ((28, 1),),
    "streams.version": ((29, 1),),
}


def level_of_release(name: str) -> int | None:
    """The level of a name such as `4.2-IV1`, or of a release such as `4.2`; None for what is neither."""
    release = ".".join(name.split(".")[:2])
    found = [level for level, known in METADATA_VERSION_NAMES.items() if name == known]
    found += [level for level, known in METADATA_VERSION_NAMES.items() if known.startswith(f"{release}-")]
    if name in METADATA_VERSION_NAMES.values():
        return found[0]
    return found[-1] if found and "-" not in name else None


def levels_of_release(level: int) -> dict[str, int]:
    """Every feature's level in a release that has this level of `metadata.version`."""
    levels = {METADATA_VERSION: level}
    for name, steps in RELEASE_LEVELS.items():
        levels[name] = next((to for since, to in steps if level >= since), 0)
    return levels


def show_level(feature: str, level: int) -> str:
    """A level as Kafka's tools print it."""
    return METADATA_VERSION_NAMES.get(level, str(level)) if feature == METADATA_VERSION else str(level)
