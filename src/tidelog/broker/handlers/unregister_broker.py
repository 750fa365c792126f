"""UnregisterBroker (key 64), v0: forget a broker that will not come back (KIP-500)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.brokers import unregister
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import NodeId
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


class UnregisterBrokerHandler:
    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def __call__(self, call: Call, request: UnregisterBrokerRequest) -> None:
        def answer(outcome: ProtocolError | None) -> None:
            if outcome is None:
                call.answer(UnregisterBrokerResponse(error_message=None))
            else:
                call.answer(UnregisterBrokerResponse(error_code=outcome.code, error_message=outcome.message))

        self._commands.submit(lambda controller: unregister(controller, NodeId(request.broker_id)), answer)
