"""One member alone at a desk: events in by hand, effects out; only the effects on its log are carried out."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from harness.raft.storage import Entry, MemoryLog
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft import effects as do
from tidelog.raft import events as on
from tidelog.raft.machine import Quorum
from tidelog.raft.replicas import Endpoint, ReplicaKey, Voter, VoterSet
from tidelog.raft.roles import Remembered, RoleName
from tidelog.raft.settings import QuorumSettings
from tidelog.raft.voter_history import VoterHistory

EffectT = TypeVar("EffectT")
SETTINGS = QuorumSettings()


def key(node_id: int) -> ReplicaKey:
    """Node 7 keeps directory 7."""
    return ReplicaKey(NodeId(node_id), UUID(int=node_id))


def voter(node_id: int, port: int = 9093) -> Voter:
    return Voter(key(node_id), (Endpoint("CONTROLLER", f"node-{node_id}", port),))


def voter_set(*node_ids: int) -> VoterSet:
    return VoterSet(voter(node_id) for node_id in node_ids)


def log_of(*runs: tuple[int, int]) -> MemoryLog:
    """A synced log of (epoch, number of records) runs."""
    log = MemoryLog()
    for epoch, count in runs:
        log.append([Entry(LeaderEpoch(epoch), f"{epoch}.{number}") for number in range(count)])
    log.synced_end = log.end_offset
    return log


class LowestNumber:
    def below(self, limit: int) -> int:
        assert limit >= 1
        return 0


class Desk:
    """The member with its log, and the time."""

    def __init__(
        self,
        node_id: int = 1,
        voters: tuple[int, ...] = (1, 2, 3),
        *,
        log: MemoryLog | None = None,
        dynamic: bool = True,
        remembered: Remembered = Remembered(),
        may_vote: bool = True,
        port: int = 9093,
    ) -> None:
        self.log = log or MemoryLog()
        self.now_ms = 0
        self.call_id = 0
        self.deadline_ms: int | None = None
        self.quorum = Quorum(
            voter(node_id, port),
            self.log,
            VoterHistory(voter_set(*voters), dynamic=dynamic),
            LowestNumber(),
            remembered=remembered,
            settings=SETTINGS,
            may_vote=may_vote,
        )
        self.effects: list[do.Effect] = []

    def step(self, event: on.Event) -> list[do.Effect]:
        self.effects = self.quorum.step(self.now_ms, event)
        for effect in self.effects:
            match effect:
                case do.AppendToLog():
                    self.log.append([Entry(effect.epoch, record) for record in effect.records])
                case do.AppendFetched():
                    assert isinstance(effect.batches, list)
                    self.log.append(effect.batches)
                case do.TruncateTo():
                    self.log.truncate(effect.offset)
                case do.StartTimer():
                    self.deadline_ms = effect.deadline_ms
        return self.effects

    def start(self) -> list[do.Effect]:
        return self.step(on.Started())

    def only(self, kind: type[EffectT]) -> EffectT:
        """The one effect of this kind of the last step."""
        found = self.all(kind)
        assert len(found) == 1, f"{kind.__name__} among {self.effects}"
        return found[0]

    def all(self, kind: type[EffectT]) -> list[EffectT]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def pass_time(self, milliseconds: int) -> list[do.Effect]:
        self.now_ms += milliseconds
        return self.step(on.Tick())

    def sync(self) -> list[do.Effect]:
        """The sync that the last step asked for is done."""
        sync_id = self.only(do.SyncLog).sync_id
        self.log.synced_end = self.log.end_offset
        return self.step(on.SyncDone(sync_id))

    def call(self, kind: Any, *arguments: Any, **named: Any) -> list[do.Effect]:
        """A request of another one; the answer, if any, has this call's id."""
        self.call_id += 1
        return self.step(kind(self.call_id, *arguments, **named))

    # --- ways into a role ---------------------------------------------------------------------------------------------

    def become_prospective(self) -> list[do.SendVote]:
        self.pass_time(SETTINGS.election_timeout_ms)
        assert self.quorum.role is RoleName.PROSPECTIVE
        return self.all(do.SendVote)

    def grant(self, request: do.SendVote, *, granted: bool = True) -> list[do.Effect]:
        return self.step(
            on.VoteAnswered(request.request_id, request.to.node_id, ErrorCode.NONE, request.epoch, granted=granted)
        )

    def become_candidate(self) -> list[do.SendVote]:
        self.grant(self.become_prospective()[0])
        assert self.quorum.role is RoleName.CANDIDATE
        return self.all(do.SendVote)

    def become_leader(self) -> None:
        self.start()
        if self.all(do.SyncLog):
            self.sync()
        if len(self.quorum.voters) > 1:
            for request in self.become_candidate()[: self.quorum.voters.majority - 1]:
                self.grant(request)
            self.sync()
        assert self.quorum.role is RoleName.LEADER

    def become_established_leader(self) -> None:
        self.become_leader()
        for other in self.quorum.voters.keys:
            if other != key(1):
                self.fetch(other.node_id, self.log.end_offset, self.log.last_epoch)
        assert self.quorum.high_watermark == self.log.end_offset

    def follow(self, leader: int = 2, epoch: int = 1) -> do.SendFetch:
        self.call(on.BeginEpochRequested, NodeId(leader), LeaderEpoch(epoch))
        assert self.quorum.role is RoleName.FOLLOWER
        return self.only(do.SendFetch)

    def append(self, count: int = 1) -> list[do.Effect]:
        epoch = self.quorum.leading_epoch
        self.log.append([Entry(epoch, "data")] * count)
        return self.step(on.Appended(epoch, self.log.end_offset))

    def fetch(
        self, node_id: int, offset: int, last_epoch: int, *, epoch: int | None = None, wait_max_ms: int = 500,
        high_watermark: int = 2**63 - 1,
    ) -> list[do.Effect]:  # fmt: skip
        return self.call(
            on.FetchRequested,
            key(node_id),
            self.quorum.epoch if epoch is None else LeaderEpoch(epoch),
            Offset(offset),
            LeaderEpoch(last_epoch),
            Offset(high_watermark),
            wait_max_ms,
        )

    def answer(self, request: do.SendFetch, **fields: Any) -> list[do.Effect]:
        """The leader answers a fetch; `entries` are what it brings."""
        fields = {"error": ErrorCode.NONE, "epoch": request.epoch, "leader": request.to} | fields
        entries = fields.pop("entries", None)
        if entries is not None:
            base = fields.pop("base_offset", request.offset)
            end = Offset(base + len(entries))
            fields |= {"batches": entries, "base_offset": base, "end_offset": end, "last_epoch": entries[-1].epoch}
        return self.step(on.FetchAnswered(request.request_id, fields.pop("source", request.to), **fields))
