"""A member of a simulated quorum: carries out what the machine wants on a simulated disk and network.

The edge of the real broker has the same work to do, with files and sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from harness.raft.referee import Violation
from harness.raft.storage import Disk, Entry, MemoryLog
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset
from tidelog.raft import effects as do
from tidelog.raft import events as on
from tidelog.raft.machine import Quorum
from tidelog.raft.replicas import ReplicaKey, VoterSet
from tidelog.raft.roles import Remembered
from tidelog.raft.voter_history import VoterHistory

if TYPE_CHECKING:
    from harness.raft.simulation import Cluster

SNAPSHOT_PIECES: Final = 3
FIRST_PORT: Final = 9093


class SeededEntropy:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def below(self, limit: int) -> int:
        return int(self._cluster.random.random() * self._cluster.plan.spread * limit)


class Member:
    """One node: its disk stays, everything else is new after each start."""

    def __init__(self, cluster: Cluster, node_id: NodeId, directory_id: UUID) -> None:
        self.cluster = cluster
        self.key = ReplicaKey(node_id, directory_id)
        self.disk = Disk()
        self.port = FIRST_PORT
        self.alive = False
        self.stopping = False
        # As announced; the machine may be a step further.
        self.leads = False
        self.incarnation = 0
        self.quorum: Quorum
        # The node's clock against that of the world.
        self.clock_rate = 1.0
        self.clock_offset_ms = 0.0
        self.timer = 0
        self.committed_end = Offset(0)
        # After this many more effects the node dies, in the middle of a step.
        self.effects_left: int | None = None
        # How long it is away after the next crash, if that is decided already.
        self.back_after_ms: float | None = None
        self.snapshot_in_flight: list[object] = []
        self.carry_out: dict[type[Any], Callable[[Any], None]] = {
            do.PersistState: self._persist,
            do.AppendToLog: self._append_control,
            do.AppendFetched: self._append_fetched,
            do.TruncateTo: self._truncate,
            do.SyncLog: self._sync,
            do.StoreSnapshot: self._store_snapshot,
            do.InstallSnapshot: self._install_snapshot,
            do.SendVote: self._send_vote,
            do.SendBeginEpoch: self._send_begin_epoch,
            do.SendEndEpoch: self._send_end_epoch,
            do.SendFetch: self._send_fetch,
            do.SendFetchSnapshot: self._send_fetch_snapshot,
            do.SendUpdateVoter: self._send_update_voter,
            do.AnswerVote: self._answer_vote,
            do.AnswerBeginEpoch: self._answer_begin_epoch,
            do.AnswerEndEpoch: self._answer_end_epoch,
            do.AnswerFetch: self._answer_fetch,
            do.AnswerFetchSnapshot: self._answer_fetch_snapshot,
            do.AnswerVoterChange: self._answer_voter_change,
            do.BecameUnattached: self._leads_no_more,
            do.BecameProspective: self._leads_no_more,
            do.BecameCandidate: self._became_candidate,
            do.BecameFollower: self._became_follower,
            do.BecameLeader: self._became_leader,
            do.LeadershipEstablished: self._ignore,
            do.BecameResigned: self._leads_no_more,
            do.CommittedUpTo: self._committed,
            do.StartTimer: self._start_timer,
            do.Complain: self._complain,
        }

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        cluster = self.cluster
        self.alive = True
        self.incarnation += 1
        self.effects_left = None
        self.stopping = False
        self.leads = False
        log = self.disk.log
        if log.snapshot_voters is not None:
            history = VoterHistory(log.snapshot_voters, dynamic=True)
            assert log.snapshot is not None
            history.replace(log.snapshot.end_offset, log.snapshot_voters)
        else:
            history = VoterHistory(cluster.first_voters, dynamic=cluster.plan.dynamic_voters)
        for offset, entry in enumerate(log.entries, log.start_offset):
            if isinstance(entry.value, VoterSet) and offset > history.latest_offset:
                history.add(Offset(offset), entry.value)
        self.quorum = Quorum(
            cluster.describe(self.key),
            log,
            history,
            SeededEntropy(cluster),
            remembered=self.disk.remembered,
            settings=cluster.plan.settings,
            bootstrap=cluster.bootstrap,
        )
        self.committed_end = self.quorum.high_watermark
        self.step(on.Started())

    def stop(self) -> None:
        """Hand over before the process ends; it ends with the next crash."""
        self.stopping = True
        self.step(on.Resign())

    def crash(self) -> None:
        self.alive = False
        self.cluster.note("%s crashes", self.key)
        self.disk.log.crash(self.cluster.random)
        self.cluster.plan.crashed(self)

    @property
    def now_ms(self) -> int:
        return int(self.cluster.now_ms * self.clock_rate + self.clock_offset_ms)

    # --- one event ----------------------------------------------------------------------------------------------------

    def step(self, event: on.Event) -> None:
        cluster = self.cluster
        cluster.steps += 1
        effects = self.quorum.step(self.now_ms, event)
        if cluster.tracing:
            cluster.note("%s <- %s", self.key, event)
            for effect in effects:
                cluster.note("%s    -> %s", self.key, effect)
        carry_out = self.carry_out
        for effect in effects:
            if self.effects_left is not None:
                if self.effects_left <= 0:
                    self.crash()
                    return
                self.effects_left -= 1
            carry_out[type(effect)](effect)

    def deliver(self, incarnation: int, event: on.Event) -> None:
        """An event for the process that was running then; one for another process is lost with it."""
        if self.alive and self.incarnation == incarnation:
            self.step(event)

    # --- what is kept -------------------------------------------------------------------------------------------------

    def _persist(self, effect: do.PersistState) -> None:
        self.disk.remembered = Remembered(effect.epoch, effect.voted_for, effect.leader)

    def _append_control(self, effect: do.AppendToLog) -> None:
        log = self.disk.log
        first = log.end_offset
        entries = []
        for record in effect.records:
            if isinstance(record, do.Voters):
                self.cluster.referee.changes_voters(self, record.voter_set)
                entries.append(Entry(effect.epoch, record.voter_set))
            else:
                entries.append(Entry(effect.epoch, type(record).__name__))
        log.append(entries)
        self.cluster.referee.appended(self, first)

    def _append_fetched(self, effect: do.AppendFetched) -> None:
        log = self.disk.log
        first = log.end_offset
        entries = effect.batches
        assert isinstance(entries, list)
        log.append(entries)
        assert log.end_offset == effect.end_offset
        self.cluster.referee.appended(self, first)

    def append(self, values: list[object]) -> None:
        """The controller of this node writes, if the node leads."""
        epoch = self.quorum.leading_epoch
        if not self.alive or epoch < 0:
            return
        log = self.disk.log
        first = log.end_offset
        log.append([Entry(epoch, value) for value in values])
        self.cluster.referee.appended(self, first)
        self.step(on.Appended(epoch, log.end_offset))

    def _truncate(self, effect: do.TruncateTo) -> None:
        self.cluster.referee.truncates(self, effect.offset)
        self.disk.log.truncate(effect.offset)

    def _sync(self, effect: do.SyncLog) -> None:
        log = self.disk.log
        delay_ms = self.cluster.plan.sync_ms(self.cluster.random)
        self.cluster.after(delay_ms, self._synced, self.incarnation, effect.sync_id, log, log.end_offset, len(log.cuts))

    def _synced(self, incarnation: int, sync_id: int, log: MemoryLog, end: Offset, cuts: int) -> None:
        if not self.alive or self.incarnation != incarnation:
            return
        log.synced(end, cuts)
        self.step(on.SyncDone(sync_id))

    def _store_snapshot(self, effect: do.StoreSnapshot) -> None:
        if effect.position == 0:
            self.snapshot_in_flight = []
        assert len(self.snapshot_in_flight) == effect.position
        self.snapshot_in_flight.append(effect.piece)

    def _install_snapshot(self, effect: do.InstallSnapshot) -> None:
        assert len(self.snapshot_in_flight) == SNAPSHOT_PIECES
        delay_ms = self.cluster.plan.sync_ms(self.cluster.random)
        self.cluster.after(delay_ms, self._installed, self.incarnation, effect, self.snapshot_in_flight[0])

    def _installed(self, incarnation: int, effect: do.InstallSnapshot, voters: VoterSet | None) -> None:
        if not self.alive or self.incarnation != incarnation:
            return
        if self.cluster.random.random() < self.cluster.plan.spoils_snapshots:
            self.step(on.SnapshotRejected(effect.snapshot))
        else:
            self.disk.log.install(effect.snapshot, voters)
            self.step(on.SnapshotInstalled(effect.snapshot, voters))

    def take_snapshot(self, forget: bool) -> None:
        """Everything that is committed goes into a snapshot; the log before it may go."""
        log = self.disk.log
        end = self.quorum.high_watermark
        if end > 0 and (log.snapshot is None or end > log.snapshot.end_offset):
            log.take_snapshot(end, self.quorum.voters_at(end) if self.cluster.plan.dynamic_voters else None)
        if forget and log.snapshot is not None and log.snapshot.end_offset > log.start_offset:
            log.forget_before_snapshot()

    # --- what is sent -------------------------------------------------------------------------------------------------

    def _send_vote(self, effect: do.SendVote) -> None:
        self.cluster.request(self, effect.to.node_id, effect.request_id, on.VoteRequested, (
            self.key, effect.epoch, effect.last_epoch, effect.end_offset, effect.pre_vote, effect.to
        ))  # fmt: skip

    def _send_begin_epoch(self, effect: do.SendBeginEpoch) -> None:
        body = (self.key.node_id, effect.epoch, effect.to)
        self.cluster.request(self, effect.to.node_id, effect.request_id, on.BeginEpochRequested, body)

    def _send_end_epoch(self, effect: do.SendEndEpoch) -> None:
        body = (self.key.node_id, effect.epoch, effect.successors)
        self.cluster.request(self, effect.to.node_id, effect.request_id, on.EndEpochRequested, body)

    def _send_fetch(self, effect: do.SendFetch) -> None:
        self.cluster.request(self, effect.to, effect.request_id, on.FetchRequested, (
            self.key, effect.epoch, effect.offset, effect.last_epoch, effect.high_watermark, effect.wait_max_ms
        ))  # fmt: skip

    def _send_fetch_snapshot(self, effect: do.SendFetchSnapshot) -> None:
        body = (self.key, effect.epoch, effect.snapshot, effect.position)
        self.cluster.request(self, effect.to, effect.request_id, on.SnapshotRequested, body)

    def _send_update_voter(self, effect: do.SendUpdateVoter) -> None:
        self.cluster.request(self, effect.to, effect.request_id, on.UpdateVoter, (effect.epoch, effect.voter))

    # --- what is answered ---------------------------------------------------------------------------------------------

    def _answer_vote(self, effect: do.AnswerVote) -> None:
        call = self.cluster.calls[effect.call_id]
        if effect.granted and not call.body[4]:
            self.cluster.referee.voted(self.key, effect.epoch, call.body[0])
            self.cluster.plan.voted(self)
        body = (effect.error, effect.epoch, effect.leader, effect.granted)
        self.cluster.answer(self, effect.call_id, on.VoteAnswered, body)

    def _answer_begin_epoch(self, effect: do.AnswerBeginEpoch) -> None:
        body = (effect.error, effect.epoch, effect.leader)
        self.cluster.answer(self, effect.call_id, on.BeginEpochAnswered, body)

    def _answer_end_epoch(self, effect: do.AnswerEndEpoch) -> None:
        self.cluster.answer(self, effect.call_id, on.EndEpochAnswered, (effect.error, effect.epoch, effect.leader))

    def _answer_fetch(self, effect: do.AnswerFetch) -> None:
        body: tuple[Any, ...] = (effect.error, effect.epoch, effect.leader, effect.high_watermark, effect.diverging)
        body += (effect.snapshot,)
        if effect.read_from is not None:
            entries = self.disk.log.read(effect.read_from, self.cluster.plan.entries_per_fetch)
            if not entries:
                raise Violation(f"{self.key} serves {effect.read_from}, which it has not")
            sets = tuple(
                (Offset(offset), entry.value)
                for offset, entry in enumerate(entries, effect.read_from)
                if isinstance(entry.value, VoterSet)
            )
            end = Offset(effect.read_from + len(entries))
            body += (entries, effect.read_from, end, entries[-1].epoch, sets)
        self.cluster.answer(self, effect.call_id, on.FetchAnswered, body)

    def _answer_fetch_snapshot(self, effect: do.AnswerFetchSnapshot) -> None:
        log = self.disk.log
        error = effect.error
        if error is ErrorCode.NONE and log.snapshot != effect.snapshot:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        body = (error, effect.epoch, effect.leader, effect.snapshot, SNAPSHOT_PIECES, effect.position, 1)
        self.cluster.answer(self, effect.call_id, on.SnapshotAnswered, (*body, log.snapshot_voters))

    def _answer_voter_change(self, effect: do.AnswerVoterChange) -> None:
        call = self.cluster.calls.get(effect.call_id)
        if call is not None:
            body = (effect.error, effect.epoch, effect.leader)
            self.cluster.answer(self, effect.call_id, on.UpdateVoterAnswered, body)

    # --- what is announced --------------------------------------------------------------------------------------------

    def _ignore(self, effect: do.Effect) -> None:
        pass

    def _leads_no_more(self, effect: do.Effect) -> None:
        self.leads = False

    def _became_candidate(self, effect: do.BecameCandidate) -> None:
        self.cluster.referee.voted(self.key, effect.epoch, self.key)

    def _became_follower(self, effect: do.BecameFollower) -> None:
        self.leads = False
        self.cluster.referee.followed(effect.leader, effect.epoch)

    def _became_leader(self, effect: do.BecameLeader) -> None:
        self.leads = True
        self.cluster.referee.elected(self, effect.epoch)
        self.cluster.plan.elected(self)

    def _committed(self, effect: do.CommittedUpTo) -> None:
        self.cluster.referee.commits(self, self.committed_end, effect.offset)
        self.committed_end = effect.offset

    def _start_timer(self, effect: do.StartTimer) -> None:
        self.timer += 1
        delay_ms = (effect.deadline_ms - self.now_ms) / self.clock_rate
        self.cluster.after(max(delay_ms, 0.0), self._tick, self.incarnation, self.timer, effect.deadline_ms)

    def _tick(self, incarnation: int, timer: int, deadline_ms: int) -> None:
        if self.alive and self.incarnation == incarnation and self.timer == timer:
            if self.now_ms < deadline_ms:
                # The clock was set back meanwhile.
                self._start_timer(do.StartTimer(deadline_ms))
            else:
                self.step(on.Tick())

    def _complain(self, effect: do.Complain) -> None:
        raise Violation(f"{self.key}: {effect.message}")
