"""What the settings of topics say about their elections. Read from the image, where commands put them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.controller.elections import Rules
from tidelog.controller.features import ELIGIBLE_LEADER_REPLICAS
from tidelog.controller.state import Controller
from tidelog.metadata.image import ConfigResource, ResourceType
from tidelog.metadata.settings import ALL_BROKERS
from tidelog.model.ids import TopicName

# Both have the same name for a topic and for a broker.
UNCLEAN: Final = "unclean.leader.election.enable"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
DEFAULTS: Final = {UNCLEAN: "false", MIN_INSYNC_REPLICAS: "1"}


class RuleBook:
    """The rules of all topics, for the length of one command: a topic's own settings, else those of the cluster."""

    def __init__(self, controller: Controller) -> None:
        self._configs = controller.image.configs
        self._eligible_leaders = controller.image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0
        self._cluster = {**DEFAULTS, **controller.policy.static_settings, **controller.image.config(ALL_BROKERS)}
        self._without_own_settings = self._rules(self._cluster)

    def of(self, topic: TopicName) -> Rules:
        own = self._configs.get(ConfigResource(ResourceType.TOPIC, topic))
        return self._without_own_settings if own is None else self._rules({**self._cluster, **own})

    def _rules(self, settings: Mapping[str, str]) -> Rules:
        return Rules(
            unclean=settings[UNCLEAN].strip().lower() == "true",
            eligible_leaders=self._eligible_leaders,
            min_insync_replicas=int(settings[MIN_INSYNC_REPLICAS]),
        )
