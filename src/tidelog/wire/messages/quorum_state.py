"""The file `quorum-state`: the vote that a node of the metadata quorum must remember (KIP-595). v1: directory ids
(KIP-853)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, int32, int64, nullable, since, string, uuid


class Voter(Message):
    voter_id: int32 = 0


class QuorumStateData(Message):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"

    cluster_id: Annotated[string, since("0")] = ""
    leader_id: int32 = -1
    leader_epoch: int32 = -1
    voted_id: int32 = -1
    voted_directory_id: Annotated[uuid, since("1+")] = ZERO_UUID
    applied_offset: Annotated[int64, since("0")] = 0
    current_voters: Annotated[list[Voter] | None, since("0"), nullable("0")] = []
