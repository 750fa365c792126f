"""UpdateRaftVoter (key 82), v0, KIP-853."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, int16, int32, nullable, string, tag, uint16, uuid


class CurrentLeader(Message):
    leader_id: int32 = -1
    leader_epoch: int32 = -1
    host: string = ""
    port: int32 = 0


class UpdateRaftVoterResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 82

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    current_leader: Annotated[CurrentLeader, tag(0, "0+")] = field(default_factory=CurrentLeader)


class Listener(Message):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class KRaftVersionFeature(Message):
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class UpdateRaftVoterRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 82
    RESPONSE = UpdateRaftVoterResponse

    cluster_id: Annotated[string | None, nullable("0+")] = ""
    current_leader_epoch: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID
    listeners: list[Listener] = []
    kraft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)
