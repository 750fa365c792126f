"""What the settings of a topic say about its elections. Read from the image, where commands put them."""

from __future__ import annotations

from typing import Final

from tidelog.controller.elections import Rules
from tidelog.controller.features import ELIGIBLE_LEADER_REPLICAS
from tidelog.controller.state import Controller
from tidelog.metadata.image import ConfigResource, ResourceType
from tidelog.model.ids import TopicName

# Both have the same name for a topic and for a broker.
UNCLEAN: Final = "unclean.leader.election.enable"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
DEFAULTS: Final = {UNCLEAN: "false", MIN_INSYNC_REPLICAS: "1"}


def election_rules(controller: Controller, topic: TopicName) -> Rules:
    """The rules for one topic: its own settings, else the cluster's, else the properties file's, else the default."""
    return Rules(
        unclean=_value(controller, topic, UNCLEAN).strip().lower() == "true",
        eligible_leaders=controller.image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0,
        min_insync_replicas=int(_value(controller, topic, MIN_INSYNC_REPLICAS)),
    )


def _value(controller: Controller, topic: TopicName, name: str) -> str:
    layers = (
        controller.image.config(ConfigResource(ResourceType.TOPIC, topic)),
        controller.image.config(ConfigResource(ResourceType.BROKER, "")),
        controller.policy.static_settings,
        DEFAULTS,
    )
    return next(layer[name] for layer in layers if name in layer)
