"""Requests on groups, one by one, to anything that answers them: a broker behind a socket, or a shard in this process.

What comes back is told in words that compare: error names, numbers, and whether there is something.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Protocol
from uuid import UUID

from harness.group_desk import QUICK, GroupDesk, subscription, topic_id
from harness.waiting import wait_until
from tidelog.groups.admin import delete_group, describe_group, list_groups
from tidelog.groups.api import COMMANDS
from tidelog.groups.consumer.describe import describe_consumer_group
from tidelog.groups.offsets.fetch import fetch_offsets, fetch_response, groups_asked
from tidelog.model.errors import ErrorCode
from tidelog.wire.compiler import decode, encode
from tidelog.wire.frames import decode_response, encode_request
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tidelog.wire.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.wire.schema import Request

TOPICS = {"orders": 4, "prices": 2}
CLIENT_ID = "probe"
COORDINATOR_SECONDS_MAX = 60
MEMBER_ID_REQUIRED = ErrorCode.MEMBER_ID_REQUIRED


class Listener(Protocol):
    """Whoever answers."""

    def call(self, request: Request, version: int) -> Any: ...

    def topic_id(self, name: str) -> UUID: ...


class SocketListener:
    """A broker behind a connection of its own."""

    def __init__(self, port: int, ids: dict[str, UUID]) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.ids = ids
        self.number = 0

    def call(self, request: Request, version: int) -> Any:
        self.number += 1
        self.connection.sendall(encode_request(request, version, self.number, CLIENT_ID))
        (length,) = struct.unpack(">i", self._read(4))
        return decode_response(type(request).RESPONSE, version, memoryview(self._read(length)))[1]

    def topic_id(self, name: str) -> UUID:
        return self.ids[name]

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            piece = self.connection.recv(length - len(data))
            assert piece, "the broker closed the connection"
            data += piece
        return data


def listen(port: int) -> SocketListener:
    """A connection to a broker that has the topics of these conversations and is ready to coordinate groups."""
    listener = SocketListener(port, {})
    topics = [CreatableTopic(name, partitions, 1) for name, partitions in TOPICS.items()]
    for topic in listener.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7).topics:
        listener.ids[topic.name] = topic.topic_id
    wait_until(lambda: _is_coordinator(listener), COORDINATOR_SECONDS_MAX)
    return listener


def _is_coordinator(listener: SocketListener) -> bool:
    found = listener.call(FindCoordinatorRequest(coordinator_keys=["any"]), 4).coordinators[0]
    # It is named before it has loaded its groups.
    return found.error_code == 0 and Talk(listener, "any").commit() == "NONE"


class ShardListener:
    """A shard in this process. Requests and answers go through their bytes, so that a version shows what it can."""

    def __init__(self) -> None:
        self.desk = GroupDesk(QUICK, topics=TOPICS)

    def call(self, request: Request, version: int) -> Any:
        received = decode(type(request), version, encode(request, version))
        response = self._answer(received, version)
        return decode(type(request).RESPONSE, version, encode(response, version))

    def topic_id(self, name: str) -> UUID:
        return topic_id(name)

    def _answer(self, request: Request, version: int) -> Any:
        read = self.desk.read
        match request:
            case OffsetFetchRequest():
                stable = request.require_stable
                parts = [
                    read(lambda shard, asked=asked: fetch_offsets(shard, asked, version, require_stable=stable))
                    for asked in groups_asked(request, version)
                ]
                return fetch_response(request, parts, version)
            case DescribeGroupsRequest():
                names = request.groups
                return DescribeGroupsResponse(
                    groups=[read(lambda shard, name=name: describe_group(shard, name, version)) for name in names]
                )
            case ConsumerGroupDescribeRequest():
                return ConsumerGroupDescribeRequest.RESPONSE(
                    groups=[  # type: ignore[call-arg]
                        read(lambda shard, name=name: describe_consumer_group(shard, name))
                        for name in request.group_ids
                    ]
                )
            case ListGroupsRequest():
                states, types = request.states_filter, request.types_filter
                return ListGroupsResponse(groups=read(lambda shard: list_groups(shard, states, types)))
            case DeleteGroupsRequest():
                return DeleteGroupsResponse(
                    results=[read(lambda shard, name=name: delete_group(shard, name)) for name in request.groups_names]
                )
            case _:
                number = self.desk.call(COMMANDS[type(request)], request, version, client_id=CLIENT_ID)
                self.desk.pass_time(1)
                return self.desk.answers[number]


def name_of(error: int) -> str:
    return ErrorCode(error).name


class Talk:
    """A conversation about one group."""

    def __init__(self, listener: Listener, group_id: str) -> None:
        self.listener = listener
        self.group_id = group_id

    def on(self, group_id: str) -> Talk:
        return Talk(self.listener, group_id)

    # Members of the classic protocol

    def join(self, member_id: str = "", version: int = 9, **fields: Any) -> JoinGroupResponse:
        topics = fields.pop("topics", ["orders"])
        names = fields.pop("names", ["range"])
        defaults = {
            "group_id": self.group_id,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name, subscription(*topics)) for name in names],
        }
        answer: JoinGroupResponse = self.listener.call(JoinGroupRequest(**{**defaults, **fields}), version)
        return answer

    def joined(self, *arguments: Any, **fields: Any) -> list[Any]:
        return told(self.join(*arguments, **fields))

    def stable(self, **fields: Any) -> tuple[str, int]:
        """Become the only member, with all partitions of the topic."""
        answer = self.join(**fields)
        if answer.error_code == MEMBER_ID_REQUIRED:
            answer = self.join(answer.member_id, **fields)
        assert answer.error_code == ErrorCode.NONE, name_of(answer.error_code)
        everything = ConsumerProtocolAssignment([TopicPartition("orders", [0, 1, 2, 3])])
        assignment = SyncGroupRequestAssignment(answer.member_id, b"\x00\x00" + encode(everything, 0))
        instance_id = fields.get("group_instance_id")
        error = self.sync(
            answer.member_id, answer.generation_id, group_instance_id=instance_id, assignments=[assignment]
        )
        assert error == "NONE", error
        return answer.member_id, answer.generation_id

    def sync(self, who: str, generation: int, **fields: Any) -> str:
        defaults = {
            "group_id": self.group_id,
            "generation_id": generation,
            "member_id": who,
            "protocol_type": "consumer",
            "protocol_name": "range",
        }
        return name_of(self.listener.call(SyncGroupRequest(**{**defaults, **fields}), 5).error_code)

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> str:
        request = HeartbeatRequest(self.group_id, generation, member_id, instance_id)
        return name_of(self.listener.call(request, 4).error_code)

    def leave(self, *members: tuple[str, str | None], version: int = 5) -> list[Any]:
        if version < 3:
            request = LeaveGroupRequest(self.group_id, member_id=members[0][0])
        else:
            request = LeaveGroupRequest(self.group_id, members=[MemberIdentity(*member) for member in members])
        answer = self.listener.call(request, version)
        return [name_of(answer.error_code), [name_of(member.error_code) for member in answer.members]]

    # Members of the consumer protocol

    def beat(self, member_id: str, epoch: int, version: int = 1, **fields: Any) -> list[Any]:
        """Error, member id, epoch, interval, and the numbers of the partitions, or None."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", self.group_id), member_id=member_id, member_epoch=epoch, **fields
        )
        answer = self.listener.call(request, version)
        partitions = None
        if answer.assignment is not None:
            partitions = sorted(number for each in answer.assignment.topic_partitions for number in each.partitions)
        member = answer.member_id if member_id else bool(answer.member_id)
        return [name_of(answer.error_code), member, answer.member_epoch, answer.heartbeat_interval_ms, partitions]

    def enter(self, member_id: str, **fields: Any) -> list[Any]:
        """Join as a consumer."""
        defaults = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["orders"], "topic_partitions": []}
        return self.beat(member_id, 0, **{**defaults, **fields})

    def own(self, *partitions: int) -> list[TopicPartitions]:
        return [TopicPartitions(self.listener.topic_id("orders"), list(partitions))]

    # Offsets

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        *,
        topic: str | UUID = "orders",
        partition: int = 0,
        offset: int = 5,
        metadata: str | None = "",
        version: int = 9,
        instance_id: str | None = None,
    ) -> str:
        partitions = [OffsetCommitRequestPartition(partition, offset, -1, metadata)]
        if version >= 10:
            named = self.listener.topic_id(topic) if isinstance(topic, str) else topic
            asked = OffsetCommitRequestTopic(topic_id=named, partitions=partitions)
        else:
            asked = OffsetCommitRequestTopic(str(topic), partitions=partitions)
        request = OffsetCommitRequest(self.group_id, generation, member_id, instance_id, topics=[asked])
        return name_of(self.listener.call(request, version).topics[0].partitions[0].error_code)

    def fetch(self, topic: str = "orders", partition: int = 0, member_id: str | None = None, epoch: int = -1) -> Any:
        topics = [OffsetFetchRequestTopics(topic, partition_indexes=[partition])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self.group_id, member_id, epoch, topics)])
        (group,) = self.listener.call(request, 9).groups
        if group.error_code:
            return name_of(group.error_code)
        ((found,),) = [each.partitions for each in group.topics]
        return [found.committed_offset, found.committed_leader_epoch, found.metadata, name_of(found.error_code)]

    def forget(self, topic: str, partition: int = 0) -> list[Any]:
        """OffsetDelete."""
        topics = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(partition)])]
        answer = self.listener.call(OffsetDeleteRequest(self.group_id, topics), 0)
        return [name_of(answer.error_code), [name_of(p.error_code) for t in answer.topics for p in t.partitions]]

    # Groups as a whole

    def describe(self, version: int = 6) -> list[Any]:
        (group,) = self.listener.call(DescribeGroupsRequest([self.group_id]), version).groups
        members = [
            [each.client_id, each.client_host, bytes(each.member_metadata).hex(), bytes(each.member_assignment).hex()]
            for each in group.members
        ]
        return [name_of(group.error_code), group.group_state, group.protocol_type, group.protocol_data, members]

    def delete(self) -> str:
        (result,) = self.listener.call(DeleteGroupsRequest([self.group_id]), 2).results
        return name_of(result.error_code)

    def listed(self, states: list[str] | None = None, types: list[str] | None = None) -> Any:
        """How this group is listed, or None."""
        request = ListGroupsRequest(states_filter=states or [], types_filter=types or [])
        groups = self.listener.call(request, 5).groups
        found = [each for each in groups if each.group_id == self.group_id]
        return [[each.protocol_type, each.group_state, each.group_type] for each in found]


def told(answer: JoinGroupResponse) -> list[Any]:
    """A JoinGroup response without what differs from run to run."""
    return [
        name_of(answer.error_code),
        answer.generation_id,
        answer.protocol_type,
        answer.protocol_name,
        bool(answer.leader),
        answer.skip_assignment,
        bool(answer.member_id),
        len(answer.members),
    ]
