"""DescribeCluster (key 60) on a controller's listener, v0-v2: the controllers and where they are (KIP-919)."""

from __future__ import annotations

from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.raft.answering import QuorumDesk
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

CONTROLLERS: Final = 2
FIRST_VERSION_WITH_TYPES: Final = 1


class DescribeControllersHandler:
    def __init__(self, desk: QuorumDesk) -> None:
        self._desk = desk

    def __call__(self, call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
        if call.header.api_version < FIRST_VERSION_WITH_TYPES or request.endpoint_type != CONTROLLERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="This is a controller's listener; it describes controllers only.",
            )
        quorum = self._desk.driver.quorum
        return DescribeClusterResponse(
            endpoint_type=CONTROLLERS,
            cluster_id=self._desk.cluster_id,
            controller_id=quorum.leader,
            brokers=[
                DescribeClusterBroker(voter.key.node_id, point.host, point.port)
                for voter in quorum.voters.voters
                for point in voter.endpoints[:1]
            ],
        )
