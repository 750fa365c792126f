"""DescribeCluster (key 60), v0-v2. v1: brokers or controllers (KIP-919). v2: fenced brokers (KIP-1073)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.call import Call
from tidelog.metadata.image import ClusterImage
from tidelog.model import operations
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1


class DescribeClusterHandler:
    def __init__(self, image: Callable[[], ClusterImage], cluster_id: str, controller: Callable[[], NodeId]) -> None:
        self._image = image
        self._cluster_id = cluster_id
        self._controller = controller

    def __call__(self, call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
        if request.endpoint_type != BROKERS:
            # A broker's listener answers for brokers; controllers are asked at their own (KIP-919).
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="This is a broker's listener; it describes brokers only.",
                endpoint_type=BROKERS,
            )
        listener = call.connection.listener_name
        image = self._image()
        return DescribeClusterResponse(
            endpoint_type=BROKERS,
            cluster_id=self._cluster_id,
            controller_id=self._controller(),
            brokers=[
                DescribeClusterBroker(broker.broker_id, endpoint.host, endpoint.port, broker.rack, broker.fenced)
                for broker in image.brokers.values()
                if (not broker.fenced or request.include_fenced_brokers)
                and (endpoint := broker.endpoints.get(listener)) is not None
            ],
            cluster_authorized_operations=(
                operations.OF_CLUSTER if request.include_cluster_authorized_operations else operations.NOT_TOLD
            ),
        )
