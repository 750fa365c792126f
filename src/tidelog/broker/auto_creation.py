"""Topics that come into being because a client asked for them (`auto.create.topics.enable`)."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.topic_creation import TopicCreation
from tidelog.controller.topics import NewTopic, TopicCreated
from tidelog.model.errors import ErrorCode, ProtocolError


class AutoCreation:
    def __init__(self, topics: TopicCreation) -> None:
        self._topics = topics

    def create_with_defaults(self, names: list[str], done: Callable[[dict[str, ErrorCode]], None]) -> None:
        """Create topics with the broker's default partitions and replicas; `done` gets the errors by name."""

        def answer(outcome: list[TopicCreated] | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                done(dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE))
                return
            done(
                {
                    created.name: created.error.code
                    for created in outcome
                    # Somebody else was quicker: then it is there.
                    if created.error is not None and created.error.code is not ErrorCode.TOPIC_ALREADY_EXISTS
                }
            )

        self._topics.create([NewTopic(name) for name in names], answer)
