"""Vote (key 52), v0-v2. A candidate of the metadata quorum asks for votes (KIP-595). v1: directory ids (KIP-853). v2: a
poll before the vote (KIP-996)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    bool_,
    ignorable,
    int16,
    int32,
    int64,
    nullable,
    since,
    string,
    tag,
    uint16,
    uuid,
)


class VoteResponsePartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    vote_granted: bool_ = False


class VoteResponseTopicData(Message):
    topic_name: string = ""
    partitions: list[VoteResponsePartitionData] = []


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: string = ""
    port: uint16 = 0


class VoteResponse(Response):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 52

    error_code: int16 = 0
    topics: list[VoteResponseTopicData] = []
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, "1+")] = []


class VoteRequestPartitionData(Message):
    partition_index: int32 = 0
    replica_epoch: int32 = 0
    replica_id: int32 = 0
    replica_directory_id: Annotated[uuid, since("1+"), ignorable] = ZERO_UUID
    voter_directory_id: Annotated[uuid, since("1+"), ignorable] = ZERO_UUID
    last_offset_epoch: int32 = 0
    last_offset: int64 = 0
    pre_vote: Annotated[bool_, since("2+")] = False


class VoteRequestTopicData(Message):
    topic_name: string = ""
    partitions: list[VoteRequestPartitionData] = []


class VoteRequest(Request):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 52
    RESPONSE = VoteResponse

    cluster_id: Annotated[string | None, nullable("0+")] = None
    voter_id: Annotated[int32, since("1+"), ignorable] = -1
    topics: list[VoteRequestTopicData] = []
