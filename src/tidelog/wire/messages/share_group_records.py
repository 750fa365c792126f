"""Records of `__consumer_offsets` and `__share_group_state` for share groups (KIP-932). `API_KEY` is the record's type,
written as 16 bits before the key; the two topics count their types separately."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, int8, int16, int32, int64, nullable, string, tag, uuid


class ShareGroupMemberMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 10

    group_id: string = ""
    member_id: string = ""


class ShareGroupMemberMetadataValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 10

    rack_id: Annotated[string | None, nullable("0+")] = ""
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = []


class ShareGroupMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 11

    group_id: string = ""


class ShareGroupMetadataValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 11

    epoch: int32 = 0
    metadata_hash: int64 = 0


class ShareGroupTargetAssignmentMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 12

    group_id: string = ""


class ShareGroupTargetAssignmentMetadataValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 12

    assignment_epoch: int32 = 0


class ShareGroupTargetAssignmentMemberKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 13

    group_id: string = ""
    member_id: string = ""


class TopicPartition(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = []


class ShareGroupTargetAssignmentMemberValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 13

    topic_partitions: list[TopicPartition] = []


class ShareGroupCurrentMemberAssignmentKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 14

    group_id: string = ""
    member_id: string = ""


class TopicPartitions(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = []


class ShareGroupCurrentMemberAssignmentValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 14

    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[TopicPartitions] = []


class ShareGroupStatePartitionMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 15

    group_id: string = ""


class TopicPartitionsInfo(Message):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    partitions: list[int32] = []


class TopicInfo(Message):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""


class ShareGroupStatePartitionMetadataValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 15

    initializing_topics: list[TopicPartitionsInfo] = []
    initialized_topics: list[TopicPartitionsInfo] = []
    deleting_topics: list[TopicInfo] = []


class ShareSnapshotKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 0

    group_id: string = ""
    topic_id: uuid = ZERO_UUID
    partition: int32 = 0


class StateBatch(Message):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0
    delivery_count: int16 = 0


class ShareSnapshotValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 0

    snapshot_epoch: int32 = 0
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: Annotated[int32, tag(0, "0+")] = -1
    create_timestamp: int64 = 0
    write_timestamp: int64 = 0
    state_batches: list[StateBatch] = []


class ShareUpdateKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 1

    group_id: string = ""
    topic_id: uuid = ZERO_UUID
    partition: int32 = 0


class ShareUpdateValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 1

    snapshot_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: Annotated[int32, tag(0, "0+")] = -1
    state_batches: list[StateBatch] = []
