"""What all parts of the machine share: who this node is, its epoch, its role, its log, and the effects of this step.

The rules about what must be synced are kept here (see `effects.py`); decisions are made in the modules named after
what they decide.
"""

from __future__ import annotations

from tidelog.model.ids import NO_NODE, LeaderEpoch, NodeId, Offset
from tidelog.raft.effects import (
    AppendFetched,
    AppendToLog,
    CommittedUpTo,
    ControlRecord,
    Effect,
    PersistState,
    SyncLog,
    TruncateTo,
    Voters,
)
from tidelog.raft.ports import Entropy, LogView, SnapshotId
from tidelog.raft.replicas import ReplicaKey, Voter
from tidelog.raft.roles import NO_REQUEST, Remembered, Role, Unattached
from tidelog.raft.settings import NEVER, QuorumSettings
from tidelog.raft.voter_history import VoterHistory


class Node:
    """One member of the quorum."""

    __slots__ = (
        "_persist_at",
        "_sync_covers",
        "_sync_id",
        "armed_ms",
        "bootstrap",
        "effects",
        "elections_lost",
        "end_offset",
        "entropy",
        "epoch",
        "high_watermark",
        "installing",
        "key",
        "last_epoch",
        "leader",
        "log",
        "may_vote",
        "me",
        "now_ms",
        "request_id",
        "role",
        "settings",
        "stopping",
        "synced_end",
        "voted_for",
        "voters",
    )

    def __init__(
        self,
        me: Voter,
        log: LogView,
        voters: VoterHistory,
        remembered: Remembered,
        settings: QuorumSettings,
        entropy: Entropy,
        bootstrap: tuple[NodeId, ...],
        may_vote: bool,
    ) -> None:
        self.me = me
        self.key: ReplicaKey = me.key
        self.log = log
        self.voters = voters
        self.settings = settings
        self.entropy = entropy
        # Whom to ask for the leader, besides the voters.
        self.bootstrap = bootstrap
        # Whether this node may ever be a voter: only then its log must be synced before it is acknowledged.
        self.may_vote = may_vote
        self.epoch: LeaderEpoch = remembered.epoch
        self.voted_for: ReplicaKey | None = remembered.voted_for
        self.leader: NodeId = remembered.leader
        self.role: Role = Unattached(NEVER)
        self.now_ms = 0
        self.effects: list[Effect] = []
        self.armed_ms = NEVER
        self.request_id = NO_REQUEST
        self.elections_lost = 0
        self.stopping = False
        # The log as it will be when the effects so far are carried out.
        self.end_offset: Offset = log.end_offset
        self.last_epoch: LeaderEpoch = log.last_epoch
        snapshot = log.snapshot
        self.high_watermark: Offset = snapshot.end_offset if snapshot is not None else log.start_offset
        # What is on the disk for certain; what a restart finds may still be in the page cache only.
        self.synced_end: Offset = log.start_offset
        self.installing: SnapshotId | None = None
        self._sync_id = 0
        self._sync_covers: Offset | None = None
        self._persist_at: int | None = None

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def is_voter(self) -> bool:
        return self.voters.latest.matching(self.key) is not None

    @property
    def may_stand(self) -> bool:
        """Whether this node may ask for votes.

        Also when only a record that may not be committed removes it: that record, and with it the vote of the only one
        who has it, would be out of reach for ever.
        """
        return not self.stopping and self.installing is None and self.voters.may_count(self.key, self.high_watermark)

    @property
    def must_sync_first(self) -> bool:
        """Whether the end of the log may not be acknowledged yet."""
        return self.may_vote and self.synced_end < self.end_offset

    # --- the step -----------------------------------------------------------------------------------------------------

    def begin_step(self, now_ms: int) -> None:
        # A clock that was set back stands still until it is where it was: timeouts get longer, never negative.
        self.now_ms = max(now_ms, self.now_ms)
        self.effects = []
        self._persist_at = None

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def next_request_id(self) -> int:
        self.request_id += 1
        return self.request_id

    # --- how long to wait: never exactly as long as the others --------------------------------------------------------

    def random_election_timeout_ms(self) -> int:
        """For a leader to come forward, or for an election to be won."""
        timeout_ms = self.settings.election_timeout_ms
        return timeout_ms + self.entropy.below(timeout_ms)

    def random_fetch_timeout_ms(self) -> int:
        """For a leader to answer."""
        return self.settings.fetch_timeout_ms + self.entropy.below(self.settings.election_timeout_ms // 2 + 1)

    def random_poll_timeout_ms(self) -> int:
        """For promises of votes, and before asking for them again: short, since promises disturb nobody."""
        shortest_ms = self.settings.election_timeout_ms // 4
        return shortest_ms + self.entropy.below(shortest_ms + 1)

    # --- what is remembered -------------------------------------------------------------------------------------------

    def remember(self, epoch: LeaderEpoch, voted_for: ReplicaKey | None, leader: NodeId) -> None:
        """Take over epoch, vote and leader, durably before whatever this step does next."""
        assert epoch >= self.epoch, f"epoch {epoch} after {self.epoch}"
        if epoch == self.epoch:
            assert self.voted_for in (None, voted_for), f"a second vote in epoch {epoch}"
            assert self.leader in (NO_NODE, leader), f"a second leader in epoch {epoch}"
            if voted_for == self.voted_for and leader == self.leader:
                return
        self.epoch, self.voted_for, self.leader = epoch, voted_for, leader
        state = PersistState(epoch, voted_for, leader)
        if self._persist_at is None:
            self._persist_at = len(self.effects)
            self.effects.append(state)
        else:
            # Written once for each step: what is remembered earlier than necessary does no harm.
            self.effects[self._persist_at] = state

    # --- the log ------------------------------------------------------------------------------------------------------

    def append_control(self, records: tuple[ControlRecord, ...]) -> None:
        """Write records of the quorum itself, as leader of this epoch."""
        for offset, record in enumerate(records, self.end_offset):
            if isinstance(record, Voters):
                self.voters.add(Offset(offset), record.voter_set)
        self.emit(AppendToLog(self.epoch, records))
        self.grown(Offset(self.end_offset + len(records)), self.epoch)

    def append_fetched(self, batches: object, end: Offset, last_epoch: LeaderEpoch) -> None:
        self.emit(AppendFetched(batches, end))
        self.grown(end, last_epoch)

    def grown(self, end: Offset, last_epoch: LeaderEpoch) -> None:
        """The log ends later now."""
        self.end_offset = end
        self.last_epoch = last_epoch

    def truncate(self, offset: Offset) -> None:
        assert self.high_watermark <= offset < self.end_offset, f"cut {self.end_offset} to {offset}"
        self.last_epoch = self.log.epoch_at(Offset(offset - 1))
        self.end_offset = offset
        self.synced_end = min(self.synced_end, offset)
        if self._sync_covers is not None:
            self._sync_covers = min(self._sync_covers, offset)
        self.voters.truncate(offset)
        self.emit(TruncateTo(offset))

    def replaced_by_snapshot(self) -> None:
        """A durable snapshot is in place of the log."""
        self.end_offset = self.log.end_offset
        self.last_epoch = self.log.last_epoch
        self.synced_end = self.end_offset
        self._sync_covers = None

    # --- syncing: one at a time, each for all that was appended before it ---------------------------------------------

    def sync(self) -> None:
        """At the end of a step: ask for a sync if there is something to sync and none is under way."""
        if self._sync_covers is None and self.must_sync_first:
            self._sync_id += 1
            self._sync_covers = self.end_offset
            self.emit(SyncLog(self._sync_id))

    def synced(self, sync_id: int) -> None:
        if sync_id != self._sync_id or self._sync_covers is None:
            return  # It was about a log that a snapshot has replaced.
        self.synced_end = max(self.synced_end, self._sync_covers)
        self._sync_covers = None

    # --- what is committed --------------------------------------------------------------------------------------------

    def commit(self, offset: Offset) -> None:
        assert self.high_watermark < offset <= self.end_offset, f"commit {offset} of {self.end_offset}"
        self.high_watermark = offset
        self.emit(CommittedUpTo(offset))
        snapshot = self.log.snapshot
        if snapshot is not None:
            self.voters.forget_before(snapshot.end_offset)
