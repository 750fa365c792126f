"""DeleteTopics (key 20), v1-v6. v5: error messages and quotas (KIP-599). v6: by topic id (KIP-516)."""

from __future__ import annotations

from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.broker.mutation_quotas import MutationQuotas
from tidelog.controller.topics import DeletedTopic, delete
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

FIRST_VERSION_WITH_QUOTAS: Final = 5
FIRST_VERSION_WITH_TOPIC_IDS: Final = 6


class DeleteTopicsHandler:
    def __init__(self, commands: Commands, quotas: MutationQuotas) -> None:
        self._commands = commands
        self._quotas = quotas

    def __call__(self, call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse | None:
        names, ids = list(request.topic_names), []
        if call.header.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
            for topic in request.topics:
                if topic.name is not None and topic.topic_id != ZERO_UUID:
                    return DeleteTopicsResponse(
                        responses=[
                            DeletableTopicResult(
                                wanted.name,
                                wanted.topic_id,
                                ErrorCode.INVALID_REQUEST,
                                "A topic is named either by its name or by its id, not by both.",
                            )
                            for wanted in request.topics
                        ]
                    )
                if topic.name is not None:
                    names.append(topic.name)
                else:
                    ids.append(topic.topic_id)
        mutation = self._quotas.begin(call, strict_since=FIRST_VERSION_WITH_QUOTAS)

        def answer(outcome: list[DeletedTopic] | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                outcome = [DeletedTopic(name, ZERO_UUID, outcome) for name in names] + [
                    DeletedTopic(None, topic_id, outcome) for topic_id in ids
                ]
            mutation.answer(DeleteTopicsResponse(responses=[_result(deleted) for deleted in outcome]))

        self._commands.submit(lambda controller: delete(controller, names, ids, charge=mutation.charge), answer)
        return None


def _result(deleted: DeletedTopic) -> DeletableTopicResult:
    if deleted.error is None:
        return DeletableTopicResult(deleted.name, deleted.topic_id)
    return DeletableTopicResult(deleted.name, deleted.topic_id, deleted.error.code, deleted.error.message)
