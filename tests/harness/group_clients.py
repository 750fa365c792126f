"""Clients of groups as small models: they join, read, commit, leave, crash, and do what the protocol tells them to.

`ClassicClient` speaks JoinGroup and SyncGroup and gives everything up before it joins again; `ConsumerClient` speaks
ConsumerGroupHeartbeat and gives up what it is told to. Both read a partition only from where its offset was committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.group_invariants import Partition, partitions_of
from harness.group_world import FETCH_VERSION, Call, World
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.wire.compiler import decode, encode
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_MS = 6_000
REBALANCE_MS = 10_000
HEARTBEAT_MS = 2_000
COMMIT_MS = 3_000
BACKOFF_MS = 200
REQUEST_MS = 4_000
# A join may wait for a whole rebalance.
JOIN_REQUEST_MS = REBALANCE_MS + 5_000


class SimulatedClient:
    """What both kinds share: requests that time out, positions, and an end."""

    def __init__(self, world: World, group_id: str, name: str, topics: Sequence[str], instance_id: str | None) -> None:
        self.world = world
        self.group_id = group_id
        self.name = name
        self.topics = list(topics)
        self.instance_id = instance_id
        self.connection = 0
        self.member_id = ""
        self.alive = False
        # A process that hangs: whatever reaches it waits until then.
        self.hangs_until_ms = 0
        # Counts what it is at: an answer or a timer from before means nothing.
        self.step = 0
        self.owned: set[Partition] = set()
        # Where it reads next; not before it knows where the last reader stopped.
        self.positions: dict[Partition, int] = {}

    @property
    def epoch(self) -> int:
        raise NotImplementedError

    @property
    def stable(self) -> bool:
        raise NotImplementedError

    def begin(self) -> None:
        raise NotImplementedError

    def disconnected(self) -> None:
        """A request got no answer in time."""
        raise NotImplementedError

    def start(self) -> None:
        self.alive = True
        self.begin()

    def crash(self) -> None:
        """Be gone without a word."""
        self.alive = False
        self.connection += 1
        self.step += 1
        self.owned = set()
        self.positions = {}

    def hang(self, milliseconds: int) -> None:
        """Do nothing for a while, and then go on as if nothing had been."""
        self.hangs_until_ms = self.world.now_ms + milliseconds

    def tarry(self, milliseconds_max: int, too_late_ms: int) -> int:
        """How long it takes to do what it must."""
        if self.world.random.random() < self.world.faults.laziness:
            return too_late_ms
        return self.world.random.randint(0, milliseconds_max)

    def request(self, request: Any, version: int, timeout_ms: int = REQUEST_MS) -> None:
        call = Call(self, request, version, self.step)
        self.world.send(call)
        self.world.after(timeout_ms, self._timed_out, call)

    def _timed_out(self, call: Call) -> None:
        if self.world.now_ms < self.hangs_until_ms:
            self.world.after(self.hangs_until_ms - self.world.now_ms, self._timed_out, call)
        elif self.alive and call.connection == self.connection and not call.heard and call.step == self.step:
            self.connection += 1
            self.disconnected()

    def answered(self, call: Call, response: Any) -> None:
        if self.world.now_ms < self.hangs_until_ms:
            self.world.after(self.hangs_until_ms - self.world.now_ms, self.answered, call, response)
            return
        if not self.alive or call.step != self.step:
            return
        if isinstance(response, OffsetFetchResponseGroup):
            self._fetched(response)
        elif not isinstance(response, OffsetCommitResponse):
            self.handle(call, response)
        else:
            self.committed(response)

    def handle(self, call: Call, response: Any) -> None:
        raise NotImplementedError

    def committed(self, response: OffsetCommitResponse) -> None:
        """Most refusals need no deed: the next heartbeat tells what is the matter."""

    def later(self, milliseconds: int, action: Any) -> None:
        self.world.after(milliseconds, self._if_still_at, self.step, action)

    def _if_still_at(self, step: int, action: Any) -> None:
        if self.world.now_ms < self.hangs_until_ms:
            self.world.after(self.hangs_until_ms - self.world.now_ms, self._if_still_at, step, action)
        elif self.alive and step == self.step:
            action()

    def fetch(self) -> None:
        """Ask where to begin in partitions that are new."""
        missing = sorted(partition for partition in self.owned if partition not in self.positions)
        if missing:
            topics = [OffsetFetchRequestTopics(topic, partition_indexes=[number]) for topic, number in missing]
            member_id = self.member_id if isinstance(self, ConsumerClient) else None
            epoch = self.epoch if isinstance(self, ConsumerClient) else -1
            self.request(OffsetFetchRequestGroup(self.group_id, member_id, epoch, topics), FETCH_VERSION)

    def _fetched(self, response: OffsetFetchResponseGroup) -> None:
        if response.error_code != ErrorCode.NONE:
            self.later(BACKOFF_MS, self.fetch)
            return
        for topic in response.topics:
            for partition in topic.partitions:
                place = (topic.name, partition.partition_index)
                if place in self.owned:
                    self.positions.setdefault(place, max(partition.committed_offset, 0))

    def commit(self) -> None:
        """Read on, and say how far."""
        random = self.world.random
        topics = []
        for (topic, number), position in sorted(self.positions.items()):
            if random.random() < 0.7:
                self.positions[topic, number] = position + random.randint(1, 9)
                partition = OffsetCommitRequestPartition(number, self.positions[topic, number])
                topics.append(OffsetCommitRequestTopic(topic, partitions=[partition]))
        if topics:
            self.request(
                OffsetCommitRequest(self.group_id, self.epoch, self.member_id, self.instance_id, topics=topics), 9
            )

    def commit_often(self) -> None:
        self.commit()
        self.later(COMMIT_MS, self.commit_often)

    def give_up(self, partitions: set[Partition]) -> None:
        self.owned -= partitions
        for partition in partitions:
            self.positions.pop(partition, None)


class ClassicClient(SimulatedClient):
    """A consumer of the classic protocol."""

    def __init__(self, world: World, group_id: str, name: str, topics: Sequence[str], instance_id: str | None) -> None:
        super().__init__(world, group_id, name, topics, instance_id)
        self.generation = -1
        self.assigned = False
        # The topics that it last assigned, when it leads.
        self.assigned_topics: dict[str, int] | None = None

    @property
    def epoch(self) -> int:
        return self.generation

    @property
    def stable(self) -> bool:
        return self.assigned

    def begin(self) -> None:
        self.join()

    def join(self) -> None:
        """Give up everything, then ask to be a member, or a member of the next generation."""
        self.step += 1
        self.assigned = False
        self.give_up(set(self.owned))
        metadata = b"\x00\x00" + encode(ConsumerProtocolSubscription(self.topics), 0)
        request = JoinGroupRequest(
            self.group_id,
            SESSION_MS,
            REBALANCE_MS,
            self.member_id,
            self.instance_id,
            "consumer",
            [JoinGroupRequestProtocol("range", metadata)],
        )
        self.request(request, 9, JOIN_REQUEST_MS)

    def leave(self) -> None:
        request = LeaveGroupRequest(self.group_id, members=[MemberIdentity(self.member_id, self.instance_id)])
        self.world.send(Call(self, request, 5, self.step))
        self.alive = False
        self.step += 1
        self.owned = set()
        self.positions = {}

    def disconnected(self) -> None:
        self.later(BACKOFF_MS, self.join)

    def handle(self, call: Call, response: Any) -> None:
        error = ErrorCode(response.error_code)
        if isinstance(response, JoinGroupResponse) and error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id, self.generation = "", -1
            self.later(BACKOFF_MS, self.join)
        elif error is not ErrorCode.NONE:
            # While it takes its time it still reads, and tells so.
            self.later(self.tarry(BACKOFF_MS, REBALANCE_MS + HEARTBEAT_MS), self.join)
        elif isinstance(response, JoinGroupResponse):
            self._joined(response)
        elif isinstance(response, SyncGroupResponse):
            self._synced(response)
        else:
            assert isinstance(response, HeartbeatResponse)

    def _joined(self, response: JoinGroupResponse) -> None:
        self.step += 1
        self.member_id, self.generation = response.member_id, response.generation_id
        leads = response.leader == self.member_id and not response.skip_assignment
        assignments = self._assign(response) if leads else []
        self.assigned_topics = dict(self.world.topics) if leads else None
        if response.skip_assignment:
            # It leads, but does not know what was assigned before it started again: it will see for itself.
            self.assigned_topics = {}
        request = SyncGroupRequest(
            self.group_id,
            self.generation,
            self.member_id,
            self.instance_id,
            "consumer",
            response.protocol_name,
            assignments,
        )
        self.later(self.tarry(50, REBALANCE_MS + 1000), lambda: self.request(request, 5, JOIN_REQUEST_MS))
        self.later(HEARTBEAT_MS, self._beat)

    def _assign(self, response: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Deal all partitions of the subscribed topics round."""
        readers: dict[str, list[str]] = {}
        for member in response.members:
            for topic in decode(ConsumerProtocolSubscription, 0, memoryview(member.metadata)[2:]).topics:
                readers.setdefault(topic, []).append(member.member_id)
        dealt: dict[str, list[Partition]] = {member.member_id: [] for member in response.members}
        for topic, names in sorted(readers.items()):
            for number in range(self.world.topics.get(topic, 0)):
                dealt[names[number % len(names)]].append((topic, number))
        return [
            SyncGroupRequestAssignment(
                name,
                b"\x00\x00"
                + encode(ConsumerProtocolAssignment([TopicPartition(topic, [number]) for topic, number in mine]), 0),
            )
            for name, mine in dealt.items()
        ]

    def _synced(self, response: SyncGroupResponse) -> None:
        self.assigned = True
        self.owned = partitions_of(bytes(response.assignment))
        self.fetch()
        self.later(self.world.random.randint(0, COMMIT_MS), self.commit_often)

    def _beat(self) -> None:
        if self.assigned and self.assigned_topics not in (None, self.world.topics):
            # No other member, and not the coordinator, looks at what topics there are.
            self.join()
            return
        request = HeartbeatRequest(self.group_id, self.generation, self.member_id, self.instance_id)
        self.request(request, 4)
        self.later(HEARTBEAT_MS, self._beat)


class ConsumerClient(SimulatedClient):
    """A consumer of the KIP-848 protocol."""

    def __init__(self, world: World, group_id: str, name: str, topics: Sequence[str], instance_id: str | None) -> None:
        super().__init__(world, group_id, name, topics, instance_id)
        self.member_id = f"{name}-id"
        self.member_epoch = 0
        # What it was told last, and whether it has told what it owns since that changed.
        self.wanted: set[Partition] = set()
        self.unreported = True
        # After an answer was lost it says all it has to say, to be told all there is to know.
        self.says_all = True
        world.host.invariants.consumers.append(self)

    @property
    def epoch(self) -> int:
        return self.member_epoch

    @property
    def stable(self) -> bool:
        return self.member_epoch > 0 and self.owned == self.wanted

    def begin(self) -> None:
        self.step += 1
        self.member_epoch = 0
        self.give_up(set(self.owned))
        self.wanted = set()
        self._beat()
        self.later(COMMIT_MS, self.commit_often)

    def crash(self) -> None:
        super().crash()
        self.member_epoch = 0
        self.wanted = set()

    def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, -1, self.instance_id)
        self.world.send(Call(self, request, 1, self.step))
        self.alive = False
        self.step += 1
        self.owned = set()
        self.positions = {}

    def disconnected(self) -> None:
        self.says_all = True
        self.step += 1
        self.later(BACKOFF_MS, self._beat)
        self.later(COMMIT_MS, self.commit_often)
        self.later(BACKOFF_MS, self.fetch)

    def _beat(self) -> None:
        request = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, self.member_epoch, self.instance_id)
        if self.says_all or self.member_epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = self.topics
        if self.says_all or self.unreported or self.member_epoch == 0:
            request.topic_partitions = self._listed()
        self.says_all = self.unreported = False
        self.request(request, 1)

    def _listed(self) -> list[TopicPartitions]:
        listed: dict[str, list[int]] = {}
        for topic, number in sorted(self.owned):
            listed.setdefault(topic, []).append(number)
        ids = self.world.host.image.topics_by_name
        return [TopicPartitions(ids[TopicName(name)].topic_id, mine) for name, mine in listed.items() if name in ids]

    def handle(self, call: Call, response: Any) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        error = ErrorCode(response.error_code)
        if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            self.step += 1
            self.give_up(set(self.owned))
            self.member_epoch = 0
            self.wanted = set()
            self.later(BACKOFF_MS, self.begin)
            return
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
            return
        if error is not ErrorCode.NONE:
            self.says_all = True
            self.later(BACKOFF_MS, self._beat)
            return
        if response.member_epoch != self.member_epoch:
            self.unreported = True
        self.member_epoch = response.member_epoch
        if response.assignment is not None:
            self._assigned(response)
        self.later(HEARTBEAT_MS, self._beat)

    def _assigned(self, response: ConsumerGroupHeartbeatResponse) -> None:
        assert response.assignment is not None
        names = {topic.topic_id: str(topic.name) for topic in self.world.host.image.topics_by_id.values()}
        self.wanted = {
            (names[each.topic_id], number)
            for each in response.assignment.topic_partitions
            if each.topic_id in names
            for number in each.partitions
        }
        revoked = self.owned - self.wanted
        if revoked:
            # It finishes what it is at, and takes nothing new before it has let go.
            self.commit()
            self.later(self.tarry(300, REBALANCE_MS + 1000), self._let_go)
        else:
            self._let_go()

    def _let_go(self) -> None:
        self.give_up(self.owned - self.wanted)
        self.owned |= self.wanted
        self.unreported = True
        self.fetch()
