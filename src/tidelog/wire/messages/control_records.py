"""Values of control records: transaction markers (KIP-98), leader changes, snapshot header and footer, voters and
version of the metadata quorum (KIP-595, KIP-630, KIP-853). A 16-bit version is their first field or stands before
them."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, int16, int32, int64, since, string, uint16, uuid


class EndTxnMarker(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"

    coordinator_epoch: int32 = 0


class KRaftVersionRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"

    version: int16 = 0
    kraft_version: int16 = 0


class LeaderChangeMessageVoter(Message):
    voter_id: int32 = 0
    voter_directory_id: Annotated[uuid, since("1+")] = ZERO_UUID


class LeaderChangeMessage(Message):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"

    version: int16 = 0
    leader_id: int32 = 0
    voters: list[LeaderChangeMessageVoter] = []
    granting_voters: list[LeaderChangeMessageVoter] = []


class SnapshotFooterRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"

    version: int16 = 0


class SnapshotHeaderRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"

    version: int16 = 0
    last_contained_log_timestamp: int64 = 0


class Endpoint(Message):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class KRaftVersionFeature(Message):
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class VotersRecordVoter(Message):
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID
    endpoints: list[Endpoint] = []
    kraft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)


class VotersRecord(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"

    version: int16 = 0
    voters: list[VotersRecordVoter] = []
