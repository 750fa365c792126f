"""Which value a setting has, and where it comes from: what DescribeConfigs shows and what brokers act on. Reads only.

A topic's setting is its own, else that of the broker, else of all brokers, else of the properties file, else the
default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import Final, NamedTuple

import msgspec

from tidelog.metadata.image import ClusterImage, ConfigResource, ResourceType
from tidelog.model.broker_settings import BROKER_SETTINGS
from tidelog.model.errors import ProtocolError
from tidelog.model.group_settings import GROUP_SETTINGS, broker_name
from tidelog.model.ids import NodeId
from tidelog.model.settings import Setting, UpdateMode, parse_value, show_value
from tidelog.model.topic_settings import TOPIC_SETTINGS

ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")

# Broker settings that say the same in several units, the finest first; each is shown with what the others say.
_UNITS: Final = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)
_SAME: Final = {name: names for names in _UNITS for name in names} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """One of the values that a setting could have; the first of several counts."""

    name: str
    value: str | None
    source: ConfigSource
    # From the unit of this name to that of the setting.
    factor: int = 1


class Described(msgspec.Struct, frozen=True):
    """A setting as DescribeConfigs shows it. A sensitive one has no value to show."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: int
    synonyms: tuple[Synonym, ...]
    help: str


class Settings:
    """The settings of one cluster as one broker sees them."""

    def __init__(self, image: ClusterImage, broker: NodeId, static: Mapping[str, str]) -> None:
        self._image = image
        self._layers = (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, image.config(ConfigResource(ResourceType.BROKER, str(broker)))),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, image.config(ALL_BROKERS)),
            (ConfigSource.STATIC_BROKER_CONFIG, static),
        )

    def broker_values(self) -> dict[str, str]:
        """What is set for this broker, by whomever; what has only its default is left out."""
        merged: dict[str, str] = {}
        for _, layer in reversed(self._layers):
            merged.update(layer)
        return merged

    def describe_topic(
        self, topic: str, names: Collection[str] | None = None, own: Mapping[str, str] | None = None
    ) -> list[Described]:
        """All settings of a topic, or those named. `own` stands for a topic that is not in the image yet."""
        if own is None:
            own = self._image.config(ConfigResource(ResourceType.TOPIC, topic))
        return [self._topic_setting(setting, own) for setting in _chosen(TOPIC_SETTINGS, names)]

    def describe_group(self, group: str, names: Collection[str] | None = None) -> list[Described]:
        """All settings of a group, or those named. What the broker's properties say is a group's default."""
        own = self._image.config(ConfigResource(ResourceType.GROUP, group))
        static = self.broker_values()
        described = []
        for setting in _chosen(GROUP_SETTINGS, names):
            if setting.name in own:
                synonym = Synonym(setting.name, own[setting.name], ConfigSource.DYNAMIC_GROUP_CONFIG)
            else:
                default = static.get(broker_name(setting.name), setting.default)
                synonym = Synonym(setting.name, default, ConfigSource.DEFAULT_CONFIG)
            described.append(_described(setting, synonym, (synonym,), read_only=False))
        return described

    def describe_broker(self, names: Collection[str] | None = None) -> list[Described]:
        """All settings of this broker, or those named."""
        described = []
        for setting in _chosen(BROKER_SETTINGS, names):
            name = setting.name
            # The value is what this name says; what others say of the same thing is only shown beside it.
            found = next(iter(self._candidates([(name, 1)])), None)
            shown = self._shown_synonyms(name, self._candidates((same, 1) for same in _SAME.get(name, (name,))))
            described.append(_described(setting, found, shown, read_only=setting.mode is UpdateMode.READ_ONLY))
        return described + list(_unknown(self._layers[:2], names))

    def describe_all_brokers(self, names: Collection[str] | None = None) -> list[Described]:
        """What was set for all brokers at once; nothing else."""
        layer = self._layers[1]
        synonyms = {name: Synonym(name, value, layer[0]) for name, value in layer[1].items()}
        described = [
            _described(setting, synonyms[setting.name], (synonyms[setting.name],), read_only=False)
            for setting in _chosen(BROKER_SETTINGS, names)
            if setting.name in synonyms
        ]
        return described + list(_unknown((layer,), names))

    def _topic_setting(self, setting: Setting, own: Mapping[str, str]) -> Described:
        of_brokers = list(self._candidates(setting.synonyms))
        shown = self._shown_synonyms(setting.synonyms[0][0], of_brokers) if setting.synonyms else ()
        if setting.name not in own:
            return _described(setting, next(iter(of_brokers), None), shown, read_only=False)
        found = Synonym(setting.name, own[setting.name], ConfigSource.DYNAMIC_TOPIC_CONFIG)
        return _described(setting, found, (found, *shown), read_only=False)

    def _candidates(self, names: Iterable[tuple[str, int]]) -> Iterator[Synonym]:
        """What could be the value of a setting, the one that counts first: by layer, then by name."""
        names = tuple(names)
        for source, layer in self._layers:
            for name, factor in names:
                if name in layer:
                    yield Synonym(name, layer[name], source, factor)
        for name, factor in names:
            setting = BROKER_SETTINGS.get(name)
            if setting is not None and setting.default is not None:
                yield Synonym(name, setting.default, ConfigSource.DEFAULT_CONFIG, factor)

    def _shown_synonyms(self, name: str, candidates: Iterable[Synonym]) -> tuple[Synonym, ...]:
        """As Kafka shows them: nothing before the first that has the name itself."""
        return tuple(dropwhile(lambda synonym: synonym.name != name, candidates))


def _chosen(table: Mapping[str, Setting], names: Collection[str] | None) -> Iterator[Setting]:
    for setting in table.values():
        if not setting.is_internal and (names is None or setting.name in names):
            yield setting


def _described(setting: Setting, found: Synonym | None, shown: tuple[Synonym, ...], *, read_only: bool) -> Described:
    """`found` is the value that counts; where it comes from is said by the first synonym that is shown."""
    value = Synonym(setting.name, setting.default, ConfigSource.DEFAULT_CONFIG) if found is None else found
    sensitive = setting.is_sensitive
    return Described(
        name=setting.name,
        value=None if sensitive else _shown(setting, _scaled(value)),
        source=shown[0].source if shown else ConfigSource.DEFAULT_CONFIG,
        read_only=read_only,
        sensitive=sensitive,
        type=setting.type,
        synonyms=tuple(synonym._replace(value=None) for synonym in shown) if sensitive else shown,
        help=setting.help,
    )


def _unknown(
    layers: Iterable[tuple[ConfigSource, Mapping[str, str]]], names: Collection[str] | None
) -> Iterator[Described]:
    """Settings that somebody set although nobody here knows them: they might be secret."""
    seen: set[str] = set()
    for source, layer in layers:
        for name in layer.keys() - BROKER_SETTINGS.keys() - seen:
            seen.add(name)
            if names is None or name in names:
                yield Described(name, None, source, True, True, 0, (Synonym(name, None, source),), "")


def _scaled(synonym: Synonym) -> str | None:
    if synonym.factor == 1 or synonym.value is None:
        return synonym.value
    number = int(synonym.value)
    # A negative number means "no limit", in every unit.
    return str(number if number < 0 else number * synonym.factor)


def _shown(setting: Setting, text: str | None) -> str | None:
    try:
        return show_value(parse_value(setting, text))
    except ProtocolError:
        return text


def describe(
    image: ClusterImage,
    resource: ConfigResource,
    broker: NodeId,
    static: Mapping[str, str],
    names: Collection[str] | None = None,
) -> list[Described]:
    """What DescribeConfigs answers for a topic, a group, this broker, or all brokers."""
    settings = Settings(image, broker, static)
    match resource:
        case (ResourceType.TOPIC, name):
            return settings.describe_topic(name, names)
        case (ResourceType.GROUP, name):
            return settings.describe_group(name, names)
        case (ResourceType.BROKER, ""):
            return settings.describe_all_brokers(names)
        case (ResourceType.BROKER, name) if name == str(broker):
            return settings.describe_broker(names)
    return []
