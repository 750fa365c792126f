"""The table of APIs: key, name, and the module that declares its messages, which is imported when first needed.

Called by `frames.py`, dispatch and clients. It says what the protocol has, not what a broker serves.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from re import sub
from typing import Final, NamedTuple, cast

from tidelog.wire.primitives import MalformedMessage
from tidelog.wire.schema import LATEST, Request, Response, VersionRange

API_VERSIONS: Final = 18

API_NAMES: Final = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    4: "LeaderAndIsr",
    5: "StopReplica",
    6: "UpdateMetadata",
    7: "ControlledShutdown",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    34: "AlterReplicaLogDirs",
    35: "DescribeLogDirs",
    36: "SaslAuthenticate",
    37: "CreatePartitions",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    47: "OffsetDelete",
    48: "DescribeClientQuotas",
    49: "AlterClientQuotas",
    50: "DescribeUserScramCredentials",
    51: "AlterUserScramCredentials",
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    55: "DescribeQuorum",
    56: "AlterPartition",
    57: "UpdateFeatures",
    58: "Envelope",
    59: "FetchSnapshot",
    60: "DescribeCluster",
    61: "DescribeProducers",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    64: "UnregisterBroker",
    65: "DescribeTransactions",
    66: "ListTransactions",
    67: "AllocateProducerIds",
    68: "ConsumerGroupHeartbeat",
    69: "ConsumerGroupDescribe",
    70: "ControllerRegistration",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    73: "AssignReplicasToDirs",
    74: "ListConfigResources",
    75: "DescribeTopicPartitions",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
}


class Api(NamedTuple):
    """One API of the protocol."""

    key: int
    name: str

    @property
    def module(self) -> str:
        """Where its messages are declared."""
        return f"tidelog.wire.messages.{sub('(?<!^)(?=[A-Z])', '_', self.name).lower()}"

    @property
    def versions(self) -> VersionRange:
        """The versions that are declared."""
        return VersionRange.parse(request_class(self.key).VERSIONS)


APIS: Final = {key: Api(key, name) for key, name in API_NAMES.items()}
BY_NAME: Final = {api.name: api for api in APIS.values()}


@cache
def request_class(key: int) -> type[Request]:
    """The request of an API; MalformedMessage when there is no such API."""
    return cast(type[Request], _declared(key, "Request"))


@cache
def response_class(key: int) -> type[Response]:
    """The response of an API; MalformedMessage when there is no such API."""
    return cast(type[Response], _declared(key, "Response"))


@cache
def flexible_from(key: int) -> int:
    """The first version in which requests have header v2 and responses header v1; beyond LATEST if there is none."""
    flexible = VersionRange.parse(request_class(key).FLEXIBLE)
    return flexible.first if flexible.first in flexible else LATEST + 1


def _declared(key: int, suffix: str) -> object:
    api = APIS.get(key)
    if api is None:
        raise MalformedMessage(f"there is no API with key {key}")
    return getattr(import_module(api.module), api.name + suffix)
