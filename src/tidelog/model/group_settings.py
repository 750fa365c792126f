"""The settings of single groups, over the broker's `group.*` ones: the table, and which values go together.

Read by the controller, which checks changes, and by `metadata/settings.py`, which describes them. Settings of share and
streams groups are known and kept, as every Kafka of this version does; nothing acts on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.settings import Pattern, Setting, SettingType, SettingValue, at_least, one_of, parse_value, table

_RESET: Final = Pattern(
    r"latest|earliest|by_duration:P(?:\d+D)?(?:T(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?",
    "[latest, earliest, by_duration:PnDTnHnMn.nS]",
)

GROUP_SETTINGS: Final = table(
    [
        Setting(
            "consumer.heartbeat.interval.ms",
            SettingType.INT,
            "5000",
            at_least(1),
            "How often the members of a group of the new protocol tell that they live.",
        ),
        Setting(
            "consumer.session.timeout.ms",
            SettingType.INT,
            "45000",
            at_least(1),
            "How long a member of a group of the new protocol may be silent before it counts as gone.",
        ),
        Setting(
            "share.auto.offset.reset", SettingType.STRING, "latest", _RESET, "Where a new share group begins to read."
        ),
        Setting(
            "share.heartbeat.interval.ms",
            SettingType.INT,
            "5000",
            at_least(1),
            "How often the members of a share group tell that they live.",
        ),
        Setting(
            "share.isolation.level",
            SettingType.STRING,
            "read_uncommitted",
            one_of("read_committed", "read_uncommitted"),
            "Whether a share group reads records of transactions that did not commit.",
        ),
        Setting(
            "share.record.lock.duration.ms",
            SettingType.INT,
            "30000",
            at_least(1000),
            "How long a member of a share group may work on a record before others get it.",
        ),
        Setting(
            "share.session.timeout.ms",
            SettingType.INT,
            "45000",
            at_least(1),
            "How long a member of a share group may be silent before it counts as gone.",
        ),
        Setting(
            "streams.heartbeat.interval.ms",
            SettingType.INT,
            "5000",
            at_least(1),
            "How often the members of a streams group tell that they live.",
        ),
        Setting(
            "streams.initial.rebalance.delay.ms",
            SettingType.INT,
            "3000",
            at_least(0),
            "How long the first member of a streams group waits for others.",
        ),
        Setting(
            "streams.num.standby.replicas",
            SettingType.INT,
            "0",
            at_least(0),
            "How many standby copies of its state a streams group keeps.",
        ),
        Setting(
            "streams.session.timeout.ms",
            SettingType.INT,
            "45000",
            at_least(1),
            "How long a member of a streams group may be silent before it counts as gone.",
        ),
    ]
)

# A group's setting -> the broker's settings that it must not go below and above.
_LIMITS: Final[dict[str, tuple[str | None, str | None]]] = {
    f"{kind}.{name}": (f"group.{kind}.min.{name}", f"group.{kind}.max.{name}")
    for kind in ("consumer", "share", "streams")
    for name in ("heartbeat.interval.ms", "session.timeout.ms")
} | {
    "share.record.lock.duration.ms": (
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    "streams.num.standby.replicas": (None, "group.streams.max.standby.replicas"),
}


def broker_name(name: str) -> str:
    """The broker's setting that says the default of a group's."""
    return f"group.{name}"


def check_group_overrides(overrides: Mapping[str, str], broker_values: Mapping[str, SettingValue]) -> None:
    """Accept the settings of a group, or raise INVALID_CONFIG for the first that cannot be."""
    values: dict[str, SettingValue] = {}
    for name, text in overrides.items():
        if name not in GROUP_SETTINGS:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        values[name] = parse_value(GROUP_SETTINGS[name], text)
    for name, value in values.items():
        lowest, highest = _LIMITS.get(name, (None, None))
        if lowest is not None and _number(value) < _number(broker_values[lowest]):
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {lowest}")
        if highest is not None and _number(value) > _number(broker_values[highest]):
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {highest}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        in_force = {name: values.get(name, broker_values[broker_name(name)]) for name in (session, heartbeat)}
        if _number(in_force[session]) <= _number(in_force[heartbeat]):
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


def _number(value: SettingValue) -> int:
    assert isinstance(value, int)
    return value
