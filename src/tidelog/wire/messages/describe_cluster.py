"""DescribeCluster (key 60), v0-v2, KIP-700. v1: brokers or controllers (KIP-919). v2: fenced brokers (KIP-1073)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bool_, int8, int16, int32, nullable, since, string


class DescribeClusterBroker(Message):
    broker_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: Annotated[string | None, nullable("0+")] = None
    is_fenced: Annotated[bool_, since("2+")] = False


class DescribeClusterResponse(Response):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 60

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    endpoint_type: Annotated[int8, since("1+")] = 1
    cluster_id: string = ""
    controller_id: int32 = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: int32 = -2147483648


class DescribeClusterRequest(Request):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 60
    RESPONSE = DescribeClusterResponse

    include_cluster_authorized_operations: bool_ = False
    endpoint_type: Annotated[int8, since("1+")] = 1
    include_fenced_brokers: Annotated[bool_, since("2+")] = False
