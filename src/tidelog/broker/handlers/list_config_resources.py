"""ListConfigResources (key 74), v0-v1. v0: client metrics alone (KIP-1000). v1: whatever has settings (KIP-1142).

Topics and brokers are listed because they exist, groups when they have settings of their own. There are no loggers or
client metrics to configure here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tidelog.broker.call import Call
from tidelog.metadata.image import ClusterImage, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

FIRST_VERSION_WITH_TYPES: Final = 1
LISTED: Final = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


class ListConfigResourcesHandler:
    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def __call__(self, call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
        wanted = {ResourceType.CLIENT_METRICS.value}
        if call.header.api_version >= FIRST_VERSION_WITH_TYPES:
            wanted = set(request.resource_types) or set(LISTED)
        if not wanted <= set(LISTED):
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        found = [ConfigResource(name, kind) for kind, name in self._resources() if kind in wanted]
        return ListConfigResourcesResponse(config_resources=found)

    def _resources(self) -> Iterator[tuple[ResourceType, str]]:
        image = self._image()
        for topic in image.topics_by_name:
            yield ResourceType.TOPIC, topic
        for broker in image.brokers:
            yield ResourceType.BROKER, str(broker)
        for resource in image.configs:
            if resource.type is ResourceType.GROUP:
                yield ResourceType.GROUP, resource.name
