"""Members of classic groups, each on a connection of its own: join together, share the partitions out, join again.

Used by the generators of rebalances and heartbeats. Every answer is checked; a member never waits while another one has
something to send, so what takes time is the broker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from struct import Struct
from typing import Final

from harness.raw_client import RawClient
from harness.server import HOST
from tidelog.wire.compiler import decode, encode
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

TIMEOUT_SECONDS: Final = 60.0
SESSION_TIMEOUT_MS: Final = 300_000
# The last version in which a new member joins at once, without asking for its id before.
JOIN_VERSION: Final = 3
SYNC_VERSION: Final = 3
HEARTBEAT_VERSION: Final = 3
PROTOCOL_VERSION: Final = 1
OFFSET_FETCH_VERSION: Final = 5
REBALANCE_IN_PROGRESS: Final = 27
_VERSION: Final = Struct(">h")


class Member:
    def __init__(self, port: int, group: str, topic: str) -> None:
        self.client = RawClient(f"{HOST}:{port}", TIMEOUT_SECONDS)
        self.group = group
        self.id = ""
        self.generation = -1
        self.owns: list[int] = []
        self._subscription = _prefixed(ConsumerProtocolSubscription([topic]))

    def send_join(self) -> None:
        protocols = [JoinGroupRequestProtocol("range", self._subscription)]
        request = JoinGroupRequest(
            self.group, SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, self.id, None, "consumer", protocols
        )
        self.client.send(request, JOIN_VERSION)

    def receive_join(self) -> JoinGroupResponse:
        joined = self.client.receive(JoinGroupResponse, JOIN_VERSION)
        _check(joined.error_code, "JoinGroup")
        self.id = joined.member_id
        self.generation = joined.generation_id
        return joined

    def send_sync(self, assignments: Sequence[SyncGroupRequestAssignment]) -> None:
        self.client.send(
            SyncGroupRequest(self.group, self.generation, self.id, assignments=list(assignments)), SYNC_VERSION
        )

    def receive_sync(self) -> None:
        synced = self.client.receive(SyncGroupResponse, SYNC_VERSION)
        _check(synced.error_code, "SyncGroup")
        body = memoryview(synced.assignment)[_VERSION.size :]
        assignment = decode(ConsumerProtocolAssignment, PROTOCOL_VERSION, body)
        self.owns = [index for topic in assignment.assigned_partitions for index in topic.partitions]

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(self.group, self.generation, self.id)

    def send_heartbeat(self) -> None:
        self.client.send(self.heartbeat(), HEARTBEAT_VERSION)

    def receive_heartbeat(self) -> int:
        return self.client.receive(HeartbeatResponse, HEARTBEAT_VERSION).error_code


@contextmanager
def members_of(port: int, groups: Sequence[str], size: int, topic: str) -> Iterator[list[list[Member]]]:
    """Connected members of several groups, not joined yet; their connections are closed afterwards."""
    wait_for_coordinators(port, groups)
    crews = [[Member(port, group, topic) for _ in range(size)] for group in groups]
    try:
        yield crews
    finally:
        for crew in crews:
            for member in crew:
                member.client.socket.close()


def stabilise(crews: Sequence[Sequence[Member]], topic: str, partitions: int) -> None:
    """All members join (anew) and each gets its part of the topic; all groups at the same time."""
    for crew in crews:
        for member in crew:
            member.send_join()
    share_out(crews, topic, partitions)


def share_out(crews: Sequence[Sequence[Member]], topic: str, partitions: int) -> None:
    """What follows when all of them have asked to join."""
    for crew in crews:
        leader = ""
        plan: list[SyncGroupRequestAssignment] = []
        for member in crew:
            joined = member.receive_join()
            if joined.leader == joined.member_id:
                plan = _shared_out([one.member_id for one in joined.members], topic, partitions)
                leader = joined.member_id
        for member in crew:
            member.send_sync(plan if member.id == leader else ())
    for crew in crews:
        for member in crew:
            member.receive_sync()
        owned = sorted(index for member in crew for index in member.owns)
        if owned != list(range(partitions)) or len({member.generation for member in crew}) != 1:
            raise RuntimeError(f"group {crew[0].group} is not stable")


def _shared_out(members: Sequence[str], topic: str, partitions: int) -> list[SyncGroupRequestAssignment]:
    return [
        SyncGroupRequestAssignment(
            member,
            _prefixed(
                ConsumerProtocolAssignment([TopicPartition(topic, list(range(number, partitions, len(members))))])
            ),
        )
        for number, member in enumerate(members)
    ]


def _prefixed(message: ConsumerProtocolAssignment | ConsumerProtocolSubscription) -> bytes:
    return _VERSION.pack(PROTOCOL_VERSION) + encode(message, PROTOCOL_VERSION)


def wait_for_coordinators(port: int, groups: Sequence[str]) -> None:
    """The first question creates the topic of offsets; a coordinator serves when it knows what was committed."""
    with RawClient(f"{HOST}:{port}", TIMEOUT_SECONDS) as client:
        for group in groups:
            while True:
                found = client.ask(FindCoordinatorRequest(key=group), FindCoordinatorResponse, 2)
                # Not a heartbeat: Apache Kafka answers those as if all was well while it loads.
                if found.error_code == 0 and not _fetch_error(client, group):
                    break
                time.sleep(0.02)


def _fetch_error(client: RawClient, group: str) -> int:
    return client.ask(OffsetFetchRequest(group, []), OffsetFetchResponse, OFFSET_FETCH_VERSION).error_code


def _check(error_code: int, api: str) -> None:
    if error_code:
        raise RuntimeError(f"{api} failed with error {error_code}")
