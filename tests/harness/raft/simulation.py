"""A whole quorum in one thread: members on simulated clocks, network and disks, driven by one seed.

Everything that happens is one entry of a heap, so the same seed gives the same run. `run(seed)` raises `Violation`
when a rule of `referee.py` is broken, or when no leader commits in time once all faults have stopped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from harness.raft.faults import Plan
from harness.raft.member import Member
from harness.raft.referee import Referee, Violation
from harness.raft.storage import Disk
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, NodeId, Offset
from tidelog.raft import events as on
from tidelog.raft.replicas import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.raft.roles import RoleName

TRACE_LINES_KEPT: Final = 300
# When faults have stopped, a leader is elected and an entry committed everywhere within this time.
RECOVERY_MS: Final = 6_000
LOOK_EVERY_MS: Final = 20
STEPS_MAX: Final = 200_000


class Call(NamedTuple):
    """A request on its way, and who waits for the answer."""

    source: Member
    incarnation: int
    request_id: int
    body: tuple[Any, ...]


class Cluster:
    """Members, the network between them, and time."""

    def __init__(self, seed: int, *, tracing: bool = False) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.plan = Plan(self.random)
        self.referee = Referee()
        self.now_ms = 0.0
        self.steps = 0
        self.tracing = tracing
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_KEPT)
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0
        self._call_id = 0
        self.calls: dict[int, Call] = {}
        # Pairs of nodes between which nothing arrives, from the first to the second.
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        self.members: dict[NodeId, Member] = {}
        self.lost_disks: dict[ReplicaKey, Disk] = {}
        self._values = 0
        node_ids = [NodeId(number) for number in range(1, self.plan.voters + self.plan.observers + 1)]
        for node_id in node_ids:
            self.members[node_id] = Member(self, node_id, self.new_directory_id())
        voter_keys = [self.members[node_id].key for node_id in node_ids[: self.plan.voters]]
        if not self.plan.dynamic_voters:
            voter_keys = [ReplicaKey(key.node_id) for key in voter_keys]
        self.bootstrap = tuple(node_ids[: self.plan.voters])
        self.first_voters = VoterSet(self.describe(key) for key in voter_keys)

    def new_directory_id(self) -> UUID:
        return UUID(int=self.random.getrandbits(127) + 1)

    def describe(self, key: ReplicaKey) -> Voter:
        """The replica as its node describes itself now."""
        return Voter(key, (Endpoint("CONTROLLER", f"node-{key.node_id}", self.members[key.node_id].port),))

    def replace_disk(self, member: Member) -> None:
        """The node gets an empty disk, and with it another name."""
        self.lost_disks[member.key] = member.disk
        member.disk = Disk()
        member.key = ReplicaKey(member.key.node_id, self.new_directory_id())

    def can_decide(self, voters: VoterSet) -> bool:
        """Whether these voters could elect somebody if all nodes were running."""
        return sum(key not in self.lost_disks for key in voters.keys) >= voters.majority

    def operator_call(self) -> int:
        """A call whose answer nobody waits for."""
        self._call_id += 1
        return self._call_id

    # --- time ---------------------------------------------------------------------------------------------------------

    def after(self, delay_ms: float, work: Callable[..., None], *arguments: Any) -> None:
        self._sequence += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._sequence, work, arguments))

    def run_until(self, end_ms: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end_ms:
            self.now_ms, _, work, arguments = heappop(heap)
            work(*arguments)
            if self.steps > STEPS_MAX:
                raise Violation(f"more than {STEPS_MAX} events: something goes round in circles")
        self.now_ms = end_ms

    # --- network ------------------------------------------------------------------------------------------------------

    def request(self, source: Member, to: NodeId, request_id: int, kind: Any, body: tuple[Any, ...]) -> None:
        plan, random = self.plan, self.random
        call = Call(source, source.incarnation, request_id, body)
        if (source.key.node_id, to) in self.cuts or random.random() < plan.loss:
            if random.random() < plan.notices_loss:
                self.after(plan.latency_ms(random), source.deliver, source.incarnation, on.RequestFailed(request_id))
            return
        self.after(plan.latency_ms(random), self._arrive, call, to, kind)
        if plan.duplicates and random.random() < plan.duplicates:
            self.after(plan.latency_ms(random), self._arrive, call, to, kind)

    def _arrive(self, call: Call, to: NodeId, kind: Any) -> None:
        member = self.members[to]
        if member.alive:
            self._call_id += 1
            self.calls[self._call_id] = call
            member.step(kind(self._call_id, *call.body))
        elif self.random.random() < self.plan.notices_loss:
            self.after(1, call.source.deliver, call.incarnation, on.RequestFailed(call.request_id, refused=True))

    def answer(self, member: Member, call_id: int, kind: Any, body: tuple[Any, ...]) -> None:
        call = self.calls.pop(call_id)
        plan, random = self.plan, self.random
        event = kind(call.request_id, member.key.node_id, *body)
        if (member.key.node_id, call.source.key.node_id) in self.cuts or random.random() < plan.loss:
            if random.random() < plan.notices_loss:
                event = on.RequestFailed(call.request_id)
            else:
                return
        self.after(plan.latency_ms(random), call.source.deliver, call.incarnation, event)

    # --- the controller -----------------------------------------------------------------------------------------------

    def next_values(self, count: int) -> list[object]:
        self._values += count
        return list(range(self._values - count + 1, self._values + 1))

    def append_everywhere(self) -> None:
        """All who believe to lead write, also those who are wrong."""
        for member in self.members.values():
            if member.alive and member.quorum.leading_epoch >= 0:
                member.append(self.next_values(self.random.randint(1, 4)))

    def has_on_disk(self, key: ReplicaKey, end: Offset, epoch: LeaderEpoch) -> bool:
        """Whether this replica acknowledged truly; what was lost with a disk counts, as one of the failures to bear."""
        lost = self.lost_disks.get(key)
        log = (lost or self.members[key.node_id].disk).log
        return log.synced_end >= end and (end <= log.start_offset or log.epoch_at(Offset(end - 1)) == epoch)

    def note(self, line: str, *arguments: object) -> None:
        if self.tracing:
            self.trace.append(f"{self.now_ms:9.2f} " + line % arguments)

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for member in self.members.values():
            member.start()
        self.plan.schedule(self)
        self.run_until(self.plan.duration_ms)
        self._recover()
        for member in self.members.values():
            self.referee.at_the_end(member)

    def _recover(self) -> None:
        """All faults stop. Somebody must lead, commit, and all must hear of it."""
        self.note("faults stop")
        self.plan.calm_down(self)
        deadline_ms = self.now_ms + RECOVERY_MS
        target, target_epoch = Offset(0), NO_EPOCH
        while self.now_ms < deadline_ms:
            self.run_until(self.now_ms + LOOK_EVERY_MS)
            leaders = [member for member in self.members.values() if member.quorum.role is RoleName.LEADER]
            newest = max(leaders, key=lambda member: member.quorum.epoch, default=None)
            if newest is None:
                continue
            if newest.quorum.epoch != target_epoch:
                newest.append(self.next_values(1))
                target, target_epoch = newest.disk.log.end_offset, newest.quorum.epoch
            if all(member.quorum.high_watermark >= target for member in self.members.values()):
                return
        states = ", ".join(repr(member.quorum) for member in self.members.values())
        raise Violation(f"{RECOVERY_MS} ms after all faults stopped, not everybody has committed {target}: {states}")


def run(seed: int) -> Cluster:
    """One whole run. When a rule is broken, the same run is told again, up to where it happened."""
    cluster = Cluster(seed)
    try:
        cluster.run()
    except AssertionError:
        raise _told(seed) from None
    return cluster


def _told(seed: int) -> Violation:
    cluster = Cluster(seed, tracing=True)
    try:
        cluster.run()
    except AssertionError as error:
        replay = f"TIDELOG_RAFT_FIRST_SEED={seed} TIDELOG_RAFT_SEEDS=1 pytest tests/simulation/test_raft_quorum.py"
        story = "\n".join(cluster.trace)
        violation = Violation(f"seed {seed}: {error or repr(error)}\nreplay: {replay}\n{cluster.plan}\n{story}")
        violation.__cause__ = error
        return violation
    return Violation(f"seed {seed} fails only now and then: the run is not repeatable")
