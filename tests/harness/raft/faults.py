"""What goes wrong in a run: a plan made from the seed, different each time in kind and in measure.

Each plan leaves some kinds of faults out, so that the others get their full effect.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from tidelog.model.ids import NodeId
from tidelog.raft import events as on
from tidelog.raft.roles import RoleName
from tidelog.raft.settings import QuorumSettings

if TYPE_CHECKING:
    from harness.raft.member import Member
    from harness.raft.simulation import Cluster

VOTER_CHANGE_TIMEOUT_MS: Final = 300
CLOCK_FORWARD_MS_MAX: Final = 1500
CLOCK_BACK_MS_MAX: Final = 300


# A tenth of the defaults: the same behaviour with less waiting. And timeouts so short that delays cause elections.
CALM: Final = QuorumSettings(
    election_timeout_ms=100,
    fetch_timeout_ms=200,
    election_backoff_max_ms=100,
    request_timeout_ms=150,
    retry_backoff_ms=10,
    fetch_wait_max_ms=60,
)
NERVOUS: Final = QuorumSettings(
    election_timeout_ms=20,
    fetch_timeout_ms=30,
    election_backoff_max_ms=40,
    request_timeout_ms=40,
    retry_backoff_ms=4,
    fetch_wait_max_ms=20,
)

# Each with its weight; one that is not in a plan never happens there.
FAULTS: Final = {
    "crash": 4,
    "crash within a step": 4,
    "crash the leader": 4,
    "power loss everywhere": 1,
    "cut one way": 4,
    "isolate": 3,
    "isolate the leader": 3,
    "split in two": 3,
    "move to another port": 2,
    "clock forward": 1,
    "clock back": 1,
    "clock rate": 1,
    "snapshot": 2,
    "stop": 2,
    "add a voter": 4,
    "remove a voter": 4,
    "lose a disk": 1,
}


class Plan:
    """How this run is disturbed."""

    def __init__(self, random: Random) -> None:
        self.voters = random.choice((3, 3, 3, 4, 5))
        self.observers = random.choice((0, 1, 1, 2))
        self.dynamic_voters = random.random() < 0.6
        is_nervous = random.random() < 0.7
        self.settings = NERVOUS if is_nervous else CALM
        self.duration_ms = random.choice((300.0, 600.0, 1200.0))
        self._latency_max_ms = random.choice((2.0, 5.0, 15.0) if is_nervous else (5.0, 20.0, 60.0))
        self.loss = random.choice((0.0, 0.0, 0.02, 0.1, 0.25))
        self.notices_loss = random.choice((0.0, 0.5, 1.0))
        self.duplicates = random.choice((0.0, 0.0, 0.05, 0.2))
        self._sync_max_ms = random.choice((0.5, 5.0, 20.0) if is_nervous else (0.5, 5.0, 30.0, 120.0))
        self.spoils_snapshots = random.choice((0.0, 0.3))
        self.entries_per_fetch = random.choice((1, 2, 8))
        self.append_every_ms = random.choice((5.0, 15.0, 50.0))
        self.fault_every_ms = random.choice((10.0, 30.0, 60.0))
        self._down_max_ms = random.choice((5.0, 50.0, 200.0))
        self._cut_max_ms = random.choice((20.0, 100.0, 400.0))
        # How much timeouts differ: with little randomness candidates meet often.
        self.spread = random.choice((1.0, 1.0, 0.1))
        # Aimed at the weak moments: just after a vote was given, just after an election was won.
        self._voter_dies = random.choice((0.0, 0.0, 0.5))
        self._leader_lives_ms = random.choice((None, None, 10.0, 50.0))
        self._faults = [name for name in FAULTS if random.random() < 0.5] or ["crash"]
        self._weights = [FAULTS[name] for name in self._faults]
        self.is_over = False

    def __repr__(self) -> str:
        values = ", ".join(f"{name.lstrip('_')}={value}" for name, value in vars(self).items() if name != "_weights")
        return f"Plan({values})"

    def latency_ms(self, random: Random) -> float:
        return random.random() * self._latency_max_ms

    def sync_ms(self, random: Random) -> float:
        return random.random() * self._sync_max_ms

    # --- while it lasts -----------------------------------------------------------------------------------------------

    def schedule(self, cluster: Cluster) -> None:
        cluster.after(self.append_every_ms, self._append, cluster)
        cluster.after(self.fault_every_ms, self._disturb, cluster)

    def _append(self, cluster: Cluster) -> None:
        if not self.is_over:
            cluster.append_everywhere()
            cluster.after(cluster.random.random() * 2 * self.append_every_ms, self._append, cluster)

    def _disturb(self, cluster: Cluster) -> None:
        if self.is_over:
            return
        random = cluster.random
        name = random.choices(self._faults, self._weights)[0]
        member = random.choice(list(cluster.members.values()))
        cluster.note("fault: %s (%s)", name, member.key)
        self._inflict(name, cluster, member)
        cluster.after(random.random() * 2 * self.fault_every_ms, self._disturb, cluster)

    def voted(self, member: Member) -> None:
        if self._voter_dies and not self.is_over and member.cluster.random.random() < self._voter_dies:
            member.effects_left = member.cluster.random.randint(0, 1)
            member.back_after_ms = member.cluster.random.random() * self._latency_max_ms / 2

    def elected(self, member: Member) -> None:
        if self._leader_lives_ms is not None and not self.is_over:
            delay_ms = member.cluster.random.random() * self._leader_lives_ms
            member.cluster.after(delay_ms, self._crash, member, member.incarnation)

    def _crash(self, member: Member, incarnation: int) -> None:
        if member.alive and member.incarnation == incarnation and not self.is_over:
            member.crash()

    def crashed(self, member: Member) -> None:
        """Whoever crashed comes back after a while."""
        delay_ms = member.back_after_ms
        if delay_ms is None:
            delay_ms = member.cluster.random.random() * self._down_max_ms
        member.back_after_ms = None
        member.cluster.after(delay_ms, self._restart, member)

    def _restart(self, member: Member) -> None:
        if not member.alive:
            member.start()

    def _inflict(self, name: str, cluster: Cluster, member: Member) -> None:
        random = cluster.random
        node_id = member.key.node_id
        others = [other for other in cluster.members if other != node_id]
        match name:
            case "crash" if member.alive:
                member.crash()
            case "crash within a step" if member.alive:
                member.effects_left = random.randint(0, 6)
            case "crash the leader":
                for leader in _leaders(cluster):
                    leader.crash()
            case "power loss everywhere":
                for victim in cluster.members.values():
                    if victim.alive:
                        victim.crash()
            case "cut one way":
                self._cut(cluster, {(node_id, random.choice(others))})
            case "isolate":
                self._isolate(cluster, node_id)
            case "isolate the leader":
                for leader in _leaders(cluster):
                    self._isolate(cluster, leader.key.node_id)
            case "split in two":
                here = {other for other in cluster.members if random.random() < 0.5}
                there = set(cluster.members) - here
                self._cut(cluster, {pair for a in here for b in there for pair in ((a, b), (b, a))})
            case "move to another port" if member.alive:
                member.crash()
                member.port += 1
            case "clock forward":
                member.clock_offset_ms += random.random() * CLOCK_FORWARD_MS_MAX
            case "clock back":
                member.clock_offset_ms -= random.random() * CLOCK_BACK_MS_MAX
            case "clock rate":
                _change_rate(member, random.choice((0.8, 1.0, 1.25)))
            case "snapshot" if member.alive:
                member.take_snapshot(forget=random.random() < 0.7)
            case "stop" if member.alive:
                member.stop()
                cluster.after(random.random() * self._down_max_ms, self._crash, member, member.incarnation)
            case "add a voter":
                _add_voter(cluster, member)
            case "remove a voter":
                _remove_voter(cluster)
            case "lose a disk":
                self._lose_disk(cluster, member)

    def _isolate(self, cluster: Cluster, node_id: NodeId) -> None:
        self._cut(cluster, {pair for other in cluster.members for pair in ((node_id, other), (other, node_id))})

    def _cut(self, cluster: Cluster, pairs: set[tuple[NodeId, NodeId]]) -> None:
        cluster.cuts |= pairs
        cluster.after(cluster.random.random() * self._cut_max_ms, cluster.cuts.difference_update, pairs)

    def _lose_disk(self, cluster: Cluster, member: Member) -> None:
        """One disk at most, where the others can do without. The node comes back empty, as another replica."""
        if cluster.lost_disks or not self.dynamic_voters:
            return
        sets = {other.quorum.voters for other in cluster.members.values()}
        if all(len(voters) > 2 for voters in sets):
            if member.alive:
                member.crash()
            cluster.replace_disk(member)

    # --- when it is over ----------------------------------------------------------------------------------------------

    def calm_down(self, cluster: Cluster) -> None:
        self.is_over = True
        self.loss = self.duplicates = self.spoils_snapshots = 0.0
        self.spread = 1.0
        self._latency_max_ms = self._sync_max_ms = 2.0
        cluster.cuts.clear()
        for member in cluster.members.values():
            _change_rate(member, 1.0)
            member.effects_left = None
            if member.alive and member.stopping:
                member.crash()
            if not member.alive:
                member.start()


def _change_rate(member: Member, rate: float) -> None:
    member.clock_offset_ms += member.cluster.now_ms * (member.clock_rate - rate)
    member.clock_rate = rate


def _leaders(cluster: Cluster) -> list[Member]:
    return [member for member in cluster.members.values() if member.alive and member.quorum.role is RoleName.LEADER]


def _add_voter(cluster: Cluster, member: Member) -> None:
    for leader in _leaders(cluster):
        leader.step(on.AddVoter(cluster.operator_call(), cluster.describe(member.key), VOTER_CHANGE_TIMEOUT_MS))


def _remove_voter(cluster: Cluster) -> None:
    for leader in _leaders(cluster):
        voters = leader.quorum.voters
        key = cluster.random.choice(voters.keys)
        if len(voters) > 2 and cluster.can_decide(voters.without(key)):
            leader.step(on.RemoveVoter(cluster.operator_call(), key, VOTER_CHANGE_TIMEOUT_MS))
