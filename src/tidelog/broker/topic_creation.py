"""Topics that this broker itself has created: those of coordinators, and those that clients ask for by using them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tidelog.broker.controller_channel import ControllerChannel
from tidelog.controller.topics import NewTopic, TopicCreated
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

Created = Callable[[list[TopicCreated] | ProtocolError], None]


class TopicCreation(Protocol):
    def create(self, topics: Sequence[NewTopic], answer: Created) -> None: ...


class CreationByController:
    """Asks the active controller."""

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel = channel

    def create(self, topics: Sequence[NewTopic], answer: Created) -> None:
        request = CreateTopicsRequest(topics=[_creatable(topic) for topic in topics])

        def answered(response: CreateTopicsResponse | ProtocolError) -> None:
            if isinstance(response, ProtocolError):
                answer(response)
                return
            answer(
                [
                    TopicCreated(topic.name, _error(topic.error_code, topic.error_message), topic.topic_id)
                    for topic in response.topics
                ]
            )

        self._channel.send(request, answered)


def _error(code: int, message: str | None) -> ProtocolError | None:
    return None if code == ErrorCode.NONE else ProtocolError(ErrorCode(code), message or "")


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        topic.name,
        topic.partitions,
        topic.replication_factor,
        [CreatableReplicaAssignment(index, list(replicas)) for index, replicas in topic.assignments],
        [CreatableTopicConfig(name, value) for name, value in topic.settings],
    )
