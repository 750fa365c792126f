"""DescribeConfigs (key 32), v1-v4. v1: sources and synonyms (KIP-226). v3: types and documentation (KIP-569)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from tidelog.broker.call import Call
from tidelog.metadata.image import ClusterImage, ConfigResource, ResourceType
from tidelog.metadata.settings import Described
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId
from tidelog.model.names import check_topic_name
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


class Describes(Protocol):
    def describe(self, resource: ConfigResource, names: Collection[str] | None) -> list[Described]: ...


class DescribeConfigsHandler:
    def __init__(self, image: Callable[[], ClusterImage], settings: Describes, node_id: NodeId) -> None:
        self._image = image
        self._settings = settings
        self._node_id = node_id

    def __call__(self, call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(results=[self._result(resource, request) for resource in request.resources])

    def _result(self, wanted: DescribeConfigsResource, request: DescribeConfigsRequest) -> DescribeConfigsResult:
        try:
            resource = self._checked(wanted)
        except ProtocolError as error:
            return DescribeConfigsResult(error.code, error.message, wanted.resource_type, wanted.resource_name, [])
        names = None if not wanted.configuration_keys else set(wanted.configuration_keys)
        return DescribeConfigsResult(
            ErrorCode.NONE,
            "",
            wanted.resource_type,
            wanted.resource_name,
            [_entry(described, request) for described in self._settings.describe(resource, names)],
        )

    def _checked(self, wanted: DescribeConfigsResource) -> ConfigResource:
        name = wanted.resource_name
        match wanted.resource_type:
            case ResourceType.TOPIC:
                check_topic_name(name)
                if self._image().topic(name) is None:
                    raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
                return ConfigResource(ResourceType.TOPIC, name)
            case ResourceType.BROKER:
                if name not in ("", str(self._node_id)):
                    raise ProtocolError(
                        ErrorCode.INVALID_REQUEST,
                        f"Unexpected broker id, expected {self._node_id} or empty string, but received {name}",
                    )
                return ConfigResource(ResourceType.BROKER, name)
            case ResourceType.GROUP:
                if not name:
                    raise ProtocolError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
                return ConfigResource(ResourceType.GROUP, name)
            case kind:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Settings of resource type {kind} are not served.")


def _entry(described: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        described.name,
        described.value,
        described.read_only,
        described.source,
        described.sensitive,
        [DescribeConfigsSynonym(synonym.name, synonym.value, synonym.source) for synonym in described.synonyms]
        if request.include_synonyms
        else [],
        described.type,
        described.help if request.include_documentation else None,
    )
