"""Which value a setting has, and where it comes from: what DescribeConfigs shows and what brokers act on. Reads only.

A topic's setting is its own, else that of the broker, else of all brokers, else of the properties file, else the
default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

import msgspec

from tidelog.metadata.image import ClusterImage, ConfigResource, ResourceType
from tidelog.model.broker_settings import BROKER_SETTINGS
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import NodeId
from tidelog.model.settings import Setting, UpdateMode, parse_value, show_value
from tidelog.model.topic_settings import TOPIC_SETTINGS

ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


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
        return [
            _described(setting, tuple(self._topic_synonyms(setting, own)), read_only=False)
            for setting in _chosen(TOPIC_SETTINGS, names)
        ]

    def describe_broker(self, names: Collection[str] | None = None) -> list[Described]:
        """All settings of this broker, or those named."""
        described = [
            _described(
                setting,
                tuple(self._broker_synonyms(((setting.name, 1),))),
                read_only=setting.mode is UpdateMode.READ_ONLY,
            )
            for setting in _chosen(BROKER_SETTINGS, names)
        ]
        return described + list(_unknown(self._layers[:2], names))

    def describe_all_brokers(self, names: Collection[str] | None = None) -> list[Described]:
        """What was set for all brokers at once; nothing else."""
        layer = self._layers[1]
        described = [
            _described(setting, (Synonym(setting.name, layer[1][setting.name], layer[0]),), read_only=False)
            for setting in _chosen(BROKER_SETTINGS, names)
            if setting.name in layer[1]
        ]
        return described + list(_unknown((layer,), names))

    def _topic_synonyms(self, setting: Setting, own: Mapping[str, str]) -> Iterator[Synonym]:
        if setting.name in own:
            yield Synonym(setting.name, own[setting.name], ConfigSource.DYNAMIC_TOPIC_CONFIG)
        yield from self._broker_synonyms(setting.synonyms)

    def _broker_synonyms(self, names: Iterable[tuple[str, int]]) -> Iterator[Synonym]:
        names = tuple(names)
        for source, layer in self._layers:
            for name, factor in names:
                if name in layer:
                    yield Synonym(name, layer[name], source, factor)
        for name, factor in names:
            setting = BROKER_SETTINGS.get(name)
            if setting is not None and setting.default is not None:
                yield Synonym(name, setting.default, ConfigSource.DEFAULT_CONFIG, factor)
                return


def _chosen(table: Mapping[str, Setting], names: Collection[str] | None) -> Iterator[Setting]:
    for setting in table.values():
        if not setting.is_internal and (names is None or setting.name in names):
            yield setting


def _described(setting: Setting, synonyms: tuple[Synonym, ...], *, read_only: bool) -> Described:
    first = synonyms[0] if synonyms else Synonym(setting.name, setting.default, ConfigSource.DEFAULT_CONFIG)
    sensitive = setting.is_sensitive
    return Described(
        name=setting.name,
        value=None if sensitive else _shown(setting, _scaled(first)),
        source=first.source,
        read_only=read_only,
        sensitive=sensitive,
        type=setting.type,
        synonyms=tuple(synonym._replace(value=None) for synonym in synonyms) if sensitive else synonyms,
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
    """What DescribeConfigs answers for a topic, this broker, or all brokers."""
    settings = Settings(image, broker, static)
    match resource:
        case (ResourceType.TOPIC, name):
            return settings.describe_topic(name, names)
        case (ResourceType.BROKER, ""):
            return settings.describe_all_brokers(names)
        case (ResourceType.BROKER, name) if name == str(broker):
            return settings.describe_broker(names)
    return []
