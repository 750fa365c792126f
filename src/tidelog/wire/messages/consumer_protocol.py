"""What classic consumers put into JoinGroup and SyncGroup: subscription and assignment, v0-v3. v1: owned partitions
(KIP-429). v2: generation (KIP-792). v3: rack (KIP-881). A 16-bit version stands before each of them."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, bytes_, ignorable, int32, nullable, since, string


class TopicPartition(Message):
    topic: string = ""
    partitions: list[int32] = []


class ConsumerProtocolAssignment(Message):
    VERSIONS = "0-3"
    FLEXIBLE = "none"

    assigned_partitions: list[TopicPartition] = []
    user_data: Annotated[bytes_ | None, nullable("0+")] = None


class ConsumerProtocolSubscription(Message):
    VERSIONS = "0-3"
    FLEXIBLE = "none"

    topics: list[string] = []
    user_data: Annotated[bytes_ | None, nullable("0+")] = None
    owned_partitions: Annotated[list[TopicPartition], since("1+"), ignorable] = []
    generation_id: Annotated[int32, since("2+"), ignorable] = -1
    rack_id: Annotated[string | None, since("3+"), nullable("3+"), ignorable] = None
