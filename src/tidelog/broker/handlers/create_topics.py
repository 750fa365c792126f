"""CreateTopics (key 19), v2-v7. v5: how topics were created is told. v6: quotas (KIP-599). v7: topic ids (KIP-516)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.broker.mutation_quotas import MutationQuotas
from tidelog.controller.topics import NewTopic, TopicCreated, create
from tidelog.metadata.settings import Described
from tidelog.model.errors import ProtocolError
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

FIRST_VERSION_WITH_QUOTAS: Final = 6


class CreateTopicsHandler:
    def __init__(
        self,
        commands: Commands,
        describe: Callable[[str, Mapping[str, str]], list[Described]],
        quotas: MutationQuotas,
    ) -> None:
        self._commands = commands
        self._quotas = quotas
        self._describe = describe

    def __call__(self, call: Call, request: CreateTopicsRequest) -> None:
        wanted = [_new_topic(topic) for topic in request.topics]
        mutation = self._quotas.begin(call, strict_since=FIRST_VERSION_WITH_QUOTAS)

        def answer(outcome: list[TopicCreated] | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                outcome = [TopicCreated(topic.name, outcome) for topic in wanted]
            mutation.answer(CreateTopicsResponse(topics=[self._result(created) for created in outcome]))

        self._commands.submit(
            lambda controller: create(controller, wanted, validate_only=request.validate_only, charge=mutation.charge),
            answer,
        )

    def _result(self, created: TopicCreated) -> CreatableTopicResult:
        if created.error is not None:
            return CreatableTopicResult(
                created.name, error_code=created.error.code, error_message=created.error.message, configs=[]
            )
        return CreatableTopicResult(
            created.name,
            created.topic_id,
            num_partitions=created.partitions,
            replication_factor=created.replication_factor,
            configs=self._configs(created.name, created.settings),
        )

    def _configs(self, name: str, settings: Sequence[tuple[str, str]]) -> list[CreatableTopicConfigs]:
        described = self._describe(name, dict(settings))
        return [
            CreatableTopicConfigs(entry.name, entry.value, entry.read_only, entry.source, entry.sensitive)
            for entry in described
        ]


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        [(config.name, config.value) for config in topic.configs],
    )
