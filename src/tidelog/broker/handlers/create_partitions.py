"""CreatePartitions (key 37), v0-v3: a topic gets more partitions, placed or assigned by hand (KIP-195).

v3: quotas (KIP-599).
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.broker.mutation_quotas import MutationQuotas
from tidelog.controller.topics import MorePartitions, PartitionsAdded, add_partitions
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

FIRST_VERSION_WITH_QUOTAS: Final = 3


class CreatePartitionsHandler:
    def __init__(self, commands: Commands, quotas: MutationQuotas) -> None:
        self._commands = commands
        self._quotas = quotas

    def __call__(self, call: Call, request: CreatePartitionsRequest) -> None:
        wanted = [
            MorePartitions(
                topic.name,
                topic.count,
                None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments],
            )
            for topic in request.topics
        ]
        mutation = self._quotas.begin(call, strict_since=FIRST_VERSION_WITH_QUOTAS)

        def answer(outcome: list[PartitionsAdded] | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                outcome = [PartitionsAdded(topic.name, outcome) for topic in wanted]
            mutation.answer(CreatePartitionsResponse(results=[_result(added) for added in outcome]))

        self._commands.submit(
            lambda controller: add_partitions(
                controller, wanted, validate_only=request.validate_only, charge=mutation.charge
            ),
            answer,
        )


def _result(added: PartitionsAdded) -> CreatePartitionsTopicResult:
    if added.error is None:
        return CreatePartitionsTopicResult(added.name, ErrorCode.NONE)
    return CreatePartitionsTopicResult(added.name, added.error.code, added.error.message)
