"""AlterClientQuotas (key 49), v0-v1 (KIP-546). Byte rates and the share of request time are enforced; the rates of
connections and of changes to topics are kept and described only."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.quotas import QuotaChange, QuotasAltered, alter_quotas, quota_entity
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)


class AlterClientQuotasHandler:
    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def __call__(self, call: Call, request: AlterClientQuotasRequest) -> None:
        changes = [
            (
                quota_entity((part.entity_type, part.entity_name) for part in entry.entity),
                [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops],
            )
            for entry in request.entries
        ]

        def answer(outcome: list[QuotasAltered] | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                outcome = [QuotasAltered(entity, outcome) for entity, _ in changes]
            call.answer(AlterClientQuotasResponse(entries=[_entry(altered) for altered in outcome]))

        self._commands.submit(
            lambda controller: alter_quotas(controller, changes, validate_only=request.validate_only), answer
        )


def _entry(altered: QuotasAltered) -> AlterClientQuotasResponseEntryData:
    error = altered.error
    return AlterClientQuotasResponseEntryData(
        ErrorCode.NONE if error is None else error.code,
        None if error is None else error.message,
        [EntityData(kind, name) for kind, name in altered.entity.parts],
    )
