"""What the two APIs that change settings have in common: the resource they name, and the answer for each."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.controller.settings import SettingsAltered
from tidelog.metadata.image import ConfigResource, ResourceType
from tidelog.model.errors import ErrorCode, ProtocolError


def config_resource(number: int, name: str) -> ConfigResource:
    known = number in ResourceType.__members__.values()
    return ConfigResource(ResourceType(number) if known else ResourceType.UNKNOWN, name)


def report(
    resources: Sequence[ConfigResource], outcome: Sequence[SettingsAltered] | ProtocolError
) -> list[tuple[int, str | None, int, str]]:
    """(error code, message, resource type, resource name) for each resource; a refused command is refused for all."""
    if isinstance(outcome, ProtocolError):
        outcome = [SettingsAltered(resource, outcome) for resource in resources]
    return [
        (
            ErrorCode.NONE if altered.error is None else altered.error.code,
            None if altered.error is None else altered.error.message,
            altered.resource.type,
            altered.resource.name,
        )
        for altered in outcome
    ]
