"""Settings as they are in force now: the properties file, under what was set by command for all brokers, for this
one, for a topic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tidelog.metadata.image import ClusterImage, ConfigResource, ResourceType
from tidelog.metadata.settings import ALL_BROKERS, Described, Settings, describe
from tidelog.model.broker_settings import broker_values
from tidelog.model.ids import NodeId
from tidelog.model.settings import SettingValue
from tidelog.model.topic_settings import TopicConfig, topic_config, topic_defaults


class LiveSettings:
    def __init__(self, node_id: NodeId, properties: Mapping[str, str], image: Callable[[], ClusterImage]) -> None:
        self._node_id = node_id
        self._this_broker = ConfigResource(ResourceType.BROKER, str(node_id))
        self._image = image
        self.static = {name: value for name, value in properties.items() if not name.startswith("tidelog.")}
        # The node's number has two names; whichever is set, both are described.
        for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
            if other in self.static:
                self.static.setdefault(name, self.static[other])
        # Said even where nobody said it: tools show it.
        self.static.setdefault("node.id", str(node_id))
        # The defaults of topics change with the broker's settings only, which is seldom.
        self._defaults_of: tuple[Mapping[str, str], ...] | None = None
        self._defaults: TopicConfig | None = None

    def topic(self, image: ClusterImage, name: str) -> TopicConfig:
        """What counts for a topic: its own settings over the broker's."""
        overrides = image.config(ConfigResource(ResourceType.TOPIC, name))
        defaults = self._topic_defaults(image)
        return topic_config(defaults, overrides) if overrides else defaults

    def describe(self, resource: ConfigResource, names: Collection[str] | None) -> list[Described]:
        return describe(self._image(), resource, self._node_id, self.static, names)

    def describe_new_topic(self, name: str, own: Mapping[str, str]) -> list[Described]:
        """A topic that is being created, as its creator is told."""
        return Settings(self._image(), self._node_id, self.static).describe_topic(name, own=own)

    def producer_expiration_ms(self) -> int:
        """How long a producer without writes is remembered."""
        expiration_ms = self._broker_values(self._layers(self._image()))["producer.id.expiration.ms"]
        assert isinstance(expiration_ms, int)
        return expiration_ms

    def _topic_defaults(self, image: ClusterImage) -> TopicConfig:
        layers = self._layers(image)
        if self._defaults is None or self._defaults_of != layers:
            self._defaults_of = layers
            self._defaults = topic_defaults(self._broker_values(layers))
        return self._defaults

    def _layers(self, image: ClusterImage) -> tuple[Mapping[str, str], ...]:
        return image.config(ALL_BROKERS), image.config(self._this_broker)

    def _broker_values(self, layers: tuple[Mapping[str, str], ...]) -> dict[str, SettingValue]:
        merged = dict(self.static)
        for layer in layers:
            merged.update(layer)
        return broker_values(merged)
