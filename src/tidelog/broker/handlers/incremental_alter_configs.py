"""IncrementalAlterConfigs (key 44), v0-v1: single settings are set, deleted, or edited as lists (KIP-339)."""

from __future__ import annotations

from tidelog.broker.altered_settings import config_resource, report
from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.settings import Alteration, SettingsAltered, alter
from tidelog.model.errors import ProtocolError
from tidelog.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class IncrementalAlterConfigsHandler:
    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def __call__(self, call: Call, request: IncrementalAlterConfigsRequest) -> None:
        changes = [
            (
                config_resource(resource.resource_type, resource.resource_name),
                [Alteration(config.name, config.config_operation, config.value) for config in resource.configs],
            )
            for resource in request.resources
        ]

        def answer(outcome: list[SettingsAltered] | ProtocolError) -> None:
            rows = report([resource for resource, _ in changes], outcome)
            call.answer(IncrementalAlterConfigsResponse(responses=[AlterConfigsResourceResponse(*row) for row in rows]))

        self._commands.submit(
            lambda controller: alter(controller, changes, validate_only=request.validate_only), answer
        )
