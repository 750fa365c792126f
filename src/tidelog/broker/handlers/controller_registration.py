"""ControllerRegistration (key 70), v0: a controller says where it listens and what it supports (KIP-919)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.controllers import register_controller
from tidelog.metadata.image import ControllerRegistration
from tidelog.metadata.told import endpoints_of, features_of
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId
from tidelog.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


class ControllerRegistrationHandler:
    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def __call__(self, call: Call, request: ControllerRegistrationRequest) -> None:
        wanted = registration_of(request)

        def answer(outcome: ProtocolError | None) -> None:
            code, message = (ErrorCode.NONE, None) if outcome is None else (outcome.code, outcome.message)
            call.answer(ControllerRegistrationResponse(error_code=code, error_message=message))

        self._commands.submit(lambda controller: register_controller(controller, wanted), answer)


def registration_of(request: ControllerRegistrationRequest) -> ControllerRegistration:
    """What a controller says about itself."""
    return ControllerRegistration(
        controller_id=NodeId(request.controller_id),
        incarnation_id=request.incarnation_id,
        endpoints=endpoints_of(request.listeners),
        features=features_of(request.features),
    )
