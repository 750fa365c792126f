"""AlterConfigs (key 33), v0-v2: a resource gets exactly these settings; what is not named falls back to its default."""

from __future__ import annotations

from tidelog.broker.altered_settings import config_resource, report
from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.settings import SettingsAltered, replace
from tidelog.model.errors import ProtocolError
from tidelog.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


class AlterConfigsHandler:
    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def __call__(self, call: Call, request: AlterConfigsRequest) -> None:
        wanted = [
            (
                config_resource(resource.resource_type, resource.resource_name),
                [(config.name, config.value) for config in resource.configs],
            )
            for resource in request.resources
        ]

        def answer(outcome: list[SettingsAltered] | ProtocolError) -> None:
            rows = report([resource for resource, _ in wanted], outcome)
            call.answer(AlterConfigsResponse(responses=[AlterConfigsResourceResponse(*row) for row in rows]))

        self._commands.submit(
            lambda controller: replace(controller, wanted, validate_only=request.validate_only), answer
        )
