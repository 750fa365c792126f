"""A world for group coordinators: one clock, one seed, a network that delays and loses, a log that commits late.

The coordinator in it crashes and comes back from what the log kept. Clients are in `group_clients.py`; what must hold
at every step is in `group_invariants.py`. The same seed gives the same run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol

from harness.group_desk import SeededEntropy, WrittenRecord, cluster, read_back, written
from harness.group_invariants import Invariants
from tidelog.groups.api import COMMANDS
from tidelog.groups.attempt import Attempt
from tidelog.groups.calls import Caller, Outcome, Reply
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.expiry import expire
from tidelog.groups.loading import loaded
from tidelog.groups.offsets.fetch import fetch_offsets, refuse_group
from tidelog.groups.offsets.repeated import CommitRun, RepeatedCommit
from tidelog.groups.offsets.retention import topics_deleted
from tidelog.groups.records import Record
from tidelog.groups.refusals import refusal
from tidelog.groups.settings import Settings
from tidelog.groups.shard import GroupShard
from tidelog.machine.runtime import Runtime
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.messages.offset_commit import OffsetCommitRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup

START_MS = 1_700_000_000_000
FETCH_VERSION = 9
# Of the commits that do not arrive in time this part does so later, over a connection that is given up by then.
STUCK_SHARE = 0.5
STUCK_MS_MAX = 15_000


class Client(Protocol):
    """Who sends requests. `connection` counts up whenever it gives up on those that are on their way."""

    name: str
    connection: int

    def answered(self, call: Call, response: Any) -> None: ...


class Call:
    """One request on its way, at the coordinator, or on its way back."""

    __slots__ = ("answer", "arrived_ms", "client", "connection", "heard", "request", "step", "version")

    def __init__(self, client: Client, request: Any, version: int, step: int) -> None:
        self.client = client
        self.connection = client.connection
        self.request = request
        self.version = version
        # What the client was at when it sent this; an answer to an earlier step means nothing to it.
        self.step = step
        self.arrived_ms = 0
        # What the coordinator answered, and whether the client has heard it.
        self.answer: Any = None
        self.heard = False


class Faults(NamedTuple):
    """How bad the world is while it is bad."""

    loss: float
    latency_ms_max: int
    commit_ms_max: int
    # How often a client does what it must only after it is too late.
    laziness: float
    crashes: bool


CALM = Faults(loss=0.0, latency_ms_max=5, commit_ms_max=5, laziness=0.0, crashes=False)


class World:
    """Time, chance and the network."""

    def __init__(self, seed: int, topics: dict[str, int], settings: Settings) -> None:
        self.random = random.Random(seed)
        self.now_ms = START_MS
        self.faults = CALM
        self.topics = topics
        self._events: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0
        # A connection delivers in order.
        self._last_arrival: dict[tuple[str, int], int] = {}
        self.host = Host(self, settings, seed)

    def after(self, milliseconds: int, action: Callable[..., None], *arguments: Any) -> None:
        self._number += 1
        heappush(self._events, (self.now_ms + milliseconds, self._number, action, arguments))

    def run_until(self, end_ms: int) -> None:
        events = self._events
        while events and events[0][0] <= end_ms:
            self.now_ms, _, action, arguments = heappop(events)
            action(*arguments)
        self.now_ms = end_ms

    def send(self, call: Call) -> None:
        """Put a request on its way; it may never arrive, or when nobody waits for it any more."""
        latency_ms_max = self.faults.latency_ms_max
        if self.random.random() < self.faults.loss:
            if not isinstance(call.request, OffsetCommitRequest) or self.random.random() >= STUCK_SHARE:
                return
            latency_ms_max = STUCK_MS_MAX
        key = (call.client.name, call.connection)
        arrival = max(self._last_arrival.get(key, 0), self.now_ms + self.random.randint(0, latency_ms_max))
        self._last_arrival[key] = arrival
        self.after(arrival - self.now_ms, self._arrive, call)

    def reply(self, call: Call, response: Any) -> None:
        """Put an answer on its way back."""
        if self.random.random() >= self.faults.loss:
            self.after(self.random.randint(0, self.faults.latency_ms_max), self._answer, call, response)

    def _arrive(self, call: Call) -> None:
        # A commit that went over a connection that its client has given up since arrives all the same, even behind
        # those that go over the next. (Of heartbeats KIP-848 itself could not tell which is the newer.)
        if call.connection == call.client.connection or (
            isinstance(call.request, OffsetCommitRequest) and not self.host.must_believe(call.request)
        ):
            call.arrived_ms = self.now_ms
            self.host.receive(call)

    def _answer(self, call: Call, response: Any) -> None:
        if call.connection == call.client.connection:
            call.heard = True
            call.client.answered(call, response)


class Host:
    """The broker around one shard: log, timer, crashes."""

    def __init__(self, world: World, settings: Settings, seed: int) -> None:
        self.world = world
        self.settings = settings
        self.entropy = SeededEntropy(seed)
        self.image = cluster(world.topics)
        self.batches: list[list[WrittenRecord]] = []
        self.end = 0
        # Whose request each of them came from; nobody's when it was a timer.
        self.authors: list[str] = []
        self._author = ""
        self.committed_batches = 0
        self.epoch = 0
        self.up = False
        self.waiting: set[Call] = set()
        # Commits by all that they say but their offsets.
        self.repeated: dict[tuple[object, ...], RepeatedCommit] = {}
        self.invariants = Invariants(self)
        self._timer_ms = 0
        self.start()

    @property
    def shard(self) -> GroupShard:
        return self.runtime.machine

    def start(self) -> None:
        """Lead, from what the log kept."""
        self.epoch += 1
        self.up = True
        self._timer_ms = 0
        self.runtime: Runtime[GroupShard, Record] = Runtime(self._build, self, ErrorCode.NOT_COORDINATOR)
        offset = 0
        for batch in self.batches:
            offset += len(batch)
            records = [read_back(record) for record in batch]
            self.runtime.load(records, Offset(offset - 1), LeaderEpoch(self.epoch - 1))
        self.committed_batches = len(self.batches)
        self.runtime.lead(LeaderEpoch(self.epoch), Offset(self.end))
        self.invariants.reloaded()
        self._submit(lambda shard: loaded(shard, self.world.now_ms))
        self._schedule()

    def _build(self) -> GroupShard:
        return GroupShard(self.settings, self.entropy, self.image)

    def crash(self) -> None:
        """Stop at once. What is not committed may or may not be found by whoever comes next."""
        self.up = False
        kept = self.world.random.randint(self.committed_batches, len(self.batches))
        del self.batches[kept:], self.authors[kept:]
        self.end = sum(map(len, self.batches))
        if self.world.random.random() < 0.5:
            self._give(self.shard.unload())
            self.runtime.resign()
        self.waiting.clear()
        self.world.after(self.world.random.randint(10, 3000), self.start)

    def change_topics(self, topics: dict[str, int]) -> None:
        gone = sorted(self.world.topics.keys() - topics.keys())
        self.world.topics = topics
        self.image = cluster(topics)
        if self.up:
            self.shard.metadata_changed(self.image)
            self._submit(lambda shard: topics_deleted(shard, gone))
            self.invariants.check(None)

    def must_believe(self, commit: OffsetCommitRequest) -> bool:
        """Whether it names the epoch that its member has: then a member may commit what it does not own any more."""
        group = self.shard.groups.get(commit.group_id)
        member = group.members.get(commit.member_id) if isinstance(group, ConsumerGroup) else None
        return member is not None and member.epoch == commit.generation_id_or_member_epoch

    def receive(self, call: Call) -> None:
        if not self.up:
            return
        if isinstance(call.request, OffsetFetchRequestGroup):
            asked = call.request

            def fetched(reply: OffsetFetchResponseGroup | ProtocolError) -> None:
                self._answer(call, refuse_group(asked, reply.code) if isinstance(reply, ProtocolError) else reply)

            self.runtime.submit(lambda shard: fetch_offsets(shard, asked, FETCH_VERSION, require_stable=True), fetched)
            return
        self.waiting.add(call)
        self._author = call.client.name
        if not self._commit_again(call):
            caller = Caller(call, call.version, call.client.name, "/10.0.0.1")
            command = COMMANDS[type(call.request)]
            self._submit(lambda shard: command(shard, call.request, caller, self.world.now_ms))
        self._author = ""
        self._schedule()
        self.invariants.check(call)

    def _commit_again(self, call: Call) -> bool:
        """Whether a request is a commit like one that came before, and goes the way of those."""
        request = call.request
        if not isinstance(request, OffsetCommitRequest):
            return False
        places = [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions]
        wording = (request.group_id, request.generation_id_or_member_epoch, request.member_id, *places)
        known = self.repeated.get(wording)
        if known is None:
            self.repeated[wording] = RepeatedCommit(call.version, request)
            return False
        offsets = [part.committed_offset for topic in request.topics for part in topic.partitions]
        command = CommitRun([(known, offsets)], self.world.now_ms)

        def answer(outcome: ProtocolError | None) -> None:
            if command.taken:
                error = ErrorCode.NONE if outcome is None else outcome.code
                self._answer(call, refusal(request, call.version, error))

        self.runtime.submit(command, answer)
        return command.taken > 0

    def _submit(self, command: Callable[[GroupShard], Outcome]) -> None:
        attempt = Attempt(command)
        self.runtime.submit(attempt, lambda answer: self._give(attempt.replies(answer) or ()))

    def _give(self, replies: Sequence[Reply]) -> None:
        for call, response in replies:
            self._answer(call, response)

    def _answer(self, call: Call, response: Any) -> None:
        assert call.answer is None, f"{type(call.request).__name__} of {call.client.name} was answered twice"
        call.answer = response
        self.waiting.discard(call)
        self.invariants.answered(call, response)
        self.world.reply(call, response)

    # The journal of the runtime.

    def append(self, records: Sequence[Record], epoch: LeaderEpoch) -> Offset:
        batch = [written(record) for record in records]
        self.batches.append(batch)
        self.authors.append(self._author)
        self.end += len(batch)
        self.invariants.appended(batch)
        delay_ms = self.world.random.randint(0, self.world.faults.commit_ms_max)
        self.world.after(delay_ms, self._commit, self.epoch, len(self.batches), self.end)
        return Offset(self.end)

    def _commit(self, epoch: int, batches: int, end: int) -> None:
        if self.up and epoch == self.epoch and batches > self.committed_batches:
            for batch in self.batches[self.committed_batches : batches]:
                self.invariants.committed(batch)
            self.committed_batches = batches
            self.runtime.committed(Offset(end))

    # The timer of the shard.

    def _schedule(self) -> None:
        deadline_ms = self.shard.next_deadline_ms()
        if deadline_ms is not None and (self._timer_ms == 0 or deadline_ms < self._timer_ms):
            self._timer_ms = deadline_ms
            self.world.after(max(deadline_ms - self.world.now_ms, 0), self._expire, self.epoch, deadline_ms)

    def _expire(self, epoch: int, deadline_ms: int) -> None:
        if not self.up or epoch != self.epoch or deadline_ms != self._timer_ms:
            return
        self._timer_ms = 0
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= self.world.now_ms:
            self._submit(lambda shard: expire(shard, self.world.now_ms))
        self._schedule()
        self.invariants.check(None)
