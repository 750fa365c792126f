"""AllocateProducerIds (key 67), v0: a block of producer ids for a broker (KIP-730)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.producer_ids import ProducerIdBlock, allocate
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import NodeId
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


class AllocateProducerIdsHandler:
    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def __call__(self, call: Call, request: AllocateProducerIdsRequest) -> None:
        def answer(outcome: ProducerIdBlock | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                call.answer(AllocateProducerIdsResponse(error_code=outcome.code))
            else:
                call.answer(AllocateProducerIdsResponse(producer_id_start=outcome.first, producer_id_len=outcome.size))

        self._commands.submit(
            lambda controller: allocate(controller, NodeId(request.broker_id), request.broker_epoch), answer
        )
