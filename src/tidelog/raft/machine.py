"""The member of the quorum that the edge drives: one event in, a list of effects out.

Pure: no clock, no randomness, no I/O of its own. Each event goes to the module that decides about it; after every
event the role is asked what it wants to do next and when it wants to be woken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidelog.model.ids import NO_EPOCH, LeaderEpoch, NodeId, Offset
from tidelog.raft import elections, following, leading, moves, voter_changes
from tidelog.raft.description import QuorumDescription, describe
from tidelog.raft.effects import Effect, StartTimer
from tidelog.raft.events import (
    AddVoter,
    Appended,
    BeginEpochAnswered,
    BeginEpochRequested,
    EndEpochAnswered,
    EndEpochRequested,
    Event,
    FetchAnswered,
    FetchRequested,
    RemoveVoter,
    RequestFailed,
    Resign,
    SnapshotAnswered,
    SnapshotInstalled,
    SnapshotRejected,
    SnapshotRequested,
    Started,
    SyncDone,
    Tick,
    UpdateVoter,
    UpdateVoterAnswered,
    VoteAnswered,
    VoteRequested,
)
from tidelog.raft.node import Node
from tidelog.raft.ports import Entropy, LogView
from tidelog.raft.replicas import Voter, VoterSet
from tidelog.raft.roles import (
    Candidate,
    Errand,
    Follower,
    Leader,
    Prospective,
    Remembered,
    Resigned,
    RoleName,
    Unattached,
)
from tidelog.raft.settings import NEVER, QuorumSettings
from tidelog.raft.voter_history import VoterHistory


def _on_started(node: Node, event: Started) -> None:
    moves.begin(node)


def _on_tick(node: Node, event: Tick) -> None:
    node.armed_ms = NEVER


def _on_sync_done(node: Node, event: SyncDone) -> None:
    node.synced(event.sync_id)


def _on_resign(node: Node, event: Resign) -> None:
    node.stopping = True


def _on_request_failed(node: Node, event: RequestFailed) -> None:
    role = node.role
    errands: list[Errand] = []
    match role:
        case Unattached():
            errands = [role.errand]
        case Follower():
            errands = [role.errand, role.update]
            if event.refused and event.request_id == role.errand.request_id:
                following.leader_is_gone(node, role)
        case Prospective() | Candidate():
            errands = [*role.ballot.errands.values()]
        case Leader():
            errands = [position.begin for position in role.positions.values()]
        case Resigned():
            errands = [*role.errands.values()]
    for errand in errands:
        if errand.request_id == event.request_id:
            errand.done(node.now_ms + node.settings.retry_backoff_ms)


# Which module decides about what.
HANDLERS: Final[dict[type[Event], Callable[[Node, Any], None]]] = {
    Started: _on_started,
    Tick: _on_tick,
    Appended: leading.on_appended,
    SyncDone: _on_sync_done,
    SnapshotInstalled: following.on_snapshot_installed,
    SnapshotRejected: following.on_snapshot_rejected,
    Resign: _on_resign,
    VoteRequested: elections.on_vote_requested,
    BeginEpochRequested: following.on_begin_epoch_requested,
    EndEpochRequested: following.on_end_epoch_requested,
    FetchRequested: leading.on_fetch_requested,
    SnapshotRequested: leading.on_snapshot_requested,
    AddVoter: voter_changes.on_add_voter,
    RemoveVoter: voter_changes.on_remove_voter,
    UpdateVoter: voter_changes.on_update_voter,
    RequestFailed: _on_request_failed,
    VoteAnswered: elections.on_vote_answered,
    BeginEpochAnswered: leading.on_begin_epoch_answered,
    EndEpochAnswered: leading.on_end_epoch_answered,
    FetchAnswered: following.on_fetch_answered,
    SnapshotAnswered: following.on_snapshot_answered,
    UpdateVoterAnswered: following.on_update_voter_answered,
}

# What each role does between events; returns when it wants to be asked again.
PURSUITS: Final[dict[RoleName, Callable[[Node, Any], int]]] = {
    RoleName.UNATTACHED: following.pursue_unattached,
    RoleName.PROSPECTIVE: elections.pursue_prospective,
    RoleName.CANDIDATE: elections.pursue_candidate,
    RoleName.FOLLOWER: following.pursue_follower,
    RoleName.LEADER: leading.pursue_leader,
    RoleName.RESIGNED: leading.pursue_resigned,
}

# Events that tell of a log which has changed already.
_TELL_OF_THE_LOG: Final = frozenset({Appended, SnapshotInstalled})


class Quorum:
    """One member of the metadata quorum: a voter, or an observer that only follows.

    `me` says who this node is and where it listens. `voters` are those that the log and its snapshot name, or a
    setting; `bootstrap` are further ids the edge can reach, asked for the leader. With `may_vote` false this node never
    becomes a voter and acknowledges without syncing.
    """

    def __init__(
        self,
        me: Voter,
        log: LogView,
        voters: VoterHistory,
        entropy: Entropy,
        *,
        remembered: Remembered = Remembered(),
        settings: QuorumSettings = QuorumSettings(),
        bootstrap: tuple[NodeId, ...] = (),
        may_vote: bool = True,
    ) -> None:
        self._node = Node(me, log, voters, remembered, settings, entropy, bootstrap, may_vote)

    def __repr__(self) -> str:
        node = self._node
        return (
            f"Quorum({node.key}, {node.role.name.value}, epoch {node.epoch}, {node.high_watermark}/{node.end_offset})"
        )

    # --- what others may ask ------------------------------------------------------------------------------------------

    @property
    def role(self) -> RoleName:
        return self._node.role.name

    @property
    def epoch(self) -> LeaderEpoch:
        return self._node.epoch

    @property
    def leader(self) -> NodeId:
        """Who leads this epoch, as far as this node knows; NO_NODE when nobody does."""
        return moves.known_leader(self._node)

    @property
    def leading_epoch(self) -> LeaderEpoch:
        """The epoch in which this node may append; NO_EPOCH when it does not lead."""
        return self._node.epoch if isinstance(self._node.role, Leader) else NO_EPOCH

    @property
    def high_watermark(self) -> Offset:
        """Everything before it is committed."""
        return self._node.high_watermark

    @property
    def voters(self) -> VoterSet:
        return self._node.voters.latest

    def voters_at(self, end: Offset) -> VoterSet:
        """The voters that a snapshot with this end must name."""
        return self._node.voters.at(end)

    def describe(self) -> QuorumDescription:
        """What DescribeQuorum tells, when this node leads."""
        return describe(self._node)

    # --- what happens -------------------------------------------------------------------------------------------------

    def step(self, now_ms: int, event: Event) -> list[Effect]:
        """Take in one event; the effects are to be carried out in their order, before the next step."""
        node = self._node
        kind = type(event)
        assert kind in _TELL_OF_THE_LOG or node.end_offset == node.log.end_offset, "effects were left out"
        node.begin_step(now_ms)
        HANDLERS[kind](node, event)
        while True:
            role = node.role
            wake_ms = PURSUITS[role.name](node, role)
            if node.role is role:
                break
        node.sync()
        if wake_ms < node.armed_ms:
            # A timer that was set too early only asks once more; one that is set anew for each event costs more.
            node.armed_ms = wake_ms
            node.emit(StartTimer(wake_ms))
        return node.effects
