"""Records of `__consumer_offsets` for classic groups, consumer groups (KIP-848) and committed offsets. `API_KEY` is the
record's type, written as 16 bits before the key; the value begins with its own version."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, bytes_, ignorable, int8, int32, int64, nullable, since, string, tag, uuid


class LegacyOffsetCommitKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 0

    group: string = ""
    topic: string = ""
    partition: int32 = 0


class LegacyOffsetCommitValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 0

    offset: int64 = 0
    metadata: string = ""
    commit_timestamp: int64 = 0


class OffsetCommitKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 1

    group: string = ""
    topic: string = ""
    partition: int32 = 0


class OffsetCommitValue(Message):
    VERSIONS = "0-4"
    FLEXIBLE = "4+"
    API_KEY = 1

    offset: int64 = 0
    leader_epoch: Annotated[int32, since("3+"), ignorable] = -1
    metadata: string = ""
    commit_timestamp: int64 = 0
    expire_timestamp: Annotated[int64, since("1"), ignorable] = -1
    topic_id: Annotated[uuid, tag(0, "4+"), ignorable] = ZERO_UUID


class GroupMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 2

    group: string = ""


class MemberMetadata(Message):
    member_id: string = ""
    group_instance_id: Annotated[string | None, since("3+"), nullable("3+"), ignorable] = None
    client_id: string = ""
    client_host: string = ""
    rebalance_timeout: Annotated[int32, since("1+"), ignorable] = -1
    session_timeout: int32 = 0
    subscription: bytes_ = b""
    assignment: bytes_ = b""


class GroupMetadataValue(Message):
    VERSIONS = "0-4"
    FLEXIBLE = "4+"
    API_KEY = 2

    protocol_type: string = ""
    generation: int32 = 0
    protocol: Annotated[string | None, nullable("0+")] = ""
    leader: Annotated[string | None, nullable("0+")] = ""
    current_state_timestamp: Annotated[int64, since("2+"), ignorable] = -1
    members: list[MemberMetadata] = []


class ConsumerGroupMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 3

    group_id: string = ""


class ConsumerGroupMetadataValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 3

    epoch: int32 = 0
    metadata_hash: Annotated[int64, tag(0, "0+")] = 0


class ConsumerGroupPartitionMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 4

    group_id: string = ""


class PartitionMetadata(Message):
    partition: int32 = 0
    racks: list[string] = []


class TopicMetadata(Message):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    num_partitions: int32 = 0
    partition_metadata: list[PartitionMetadata] = []


class ConsumerGroupPartitionMetadataValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 4

    topics: list[TopicMetadata] = []


class ConsumerGroupMemberMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 5

    group_id: string = ""
    member_id: string = ""


class ClassicProtocol(Message):
    name: string = ""
    metadata: bytes_ = b""


class ClassicMemberMetadata(Message):
    session_timeout_ms: int32 = 0
    supported_protocols: list[ClassicProtocol] = []


class ConsumerGroupMemberMetadataValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 5

    instance_id: Annotated[string | None, nullable("0+")] = ""
    rack_id: Annotated[string | None, nullable("0+")] = ""
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = []
    subscribed_topic_regex: Annotated[string | None, nullable("0+")] = ""
    rebalance_timeout_ms: int32 = -1
    server_assignor: Annotated[string | None, nullable("0+")] = ""
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, tag(0, "0+"), nullable("0+")] = field(
        default_factory=ClassicMemberMetadata
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 6

    group_id: string = ""


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 6

    assignment_epoch: int32 = 0


class ConsumerGroupTargetAssignmentMemberKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 7

    group_id: string = ""
    member_id: string = ""


class TopicPartition(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = []


class ConsumerGroupTargetAssignmentMemberValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 7

    topic_partitions: list[TopicPartition] = []


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 8

    group_id: string = ""
    member_id: string = ""


class TopicPartitions(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = []


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 8

    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[TopicPartitions] = []
    partitions_pending_revocation: list[TopicPartitions] = []


class ConsumerGroupRegularExpressionKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 16

    group_id: string = ""
    regular_expression: string = ""


class ConsumerGroupRegularExpressionValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 16

    topics: list[string] = []
    version: int64 = 0
    timestamp: int64 = 0
