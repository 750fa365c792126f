"""The moves from one role to another: what each remembers, announces and leaves behind.

Called by the modules that decide. A move never sends a request: what a role wants to send, `machine.py` asks it after
every event.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_NODE, LeaderEpoch, NodeId, Offset
from tidelog.raft.effects import (
    AnswerFetch,
    AnswerVoterChange,
    BecameCandidate,
    BecameFollower,
    BecameLeader,
    BecameProspective,
    BecameResigned,
    BecameUnattached,
    ControlRecord,
    KRaftLevel,
    LeaderChange,
    Voters,
)
from tidelog.raft.node import Node
from tidelog.raft.replicas import DYNAMIC_VOTERS_LEVEL, ReplicaKey
from tidelog.raft.roles import (
    LEGAL_MOVES,
    Ballot,
    Candidate,
    Follower,
    Leader,
    Position,
    Prospective,
    Resigned,
    Role,
    Unattached,
)


def _enter(node: Node, role: Role) -> None:
    left = node.role
    assert role.name in LEGAL_MOVES[left.name], f"{left.name} cannot become {role.name}"
    node.role = role
    if isinstance(left, Leader):
        _disappoint(node, left)


def _disappoint(node: Node, left: Leader) -> None:
    """Whoever waits for a leader that is none any more is told so."""
    for parked in left.parked.values():
        refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        node.emit(AnswerFetch(parked.call_id, refusal, node.epoch, known_leader(node), node.high_watermark))
    if left.change is not None:
        node.emit(
            AnswerVoterChange(
                left.change.call_id,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                node.epoch,
                known_leader(node),
                "This node leads no more; whether the change was made, the next leader knows.",
            )
        )


def known_leader(node: Node) -> NodeId:
    """Whom to name when others ask who leads this epoch; nobody, once the leader has resigned."""
    return NO_NODE if isinstance(node.role, Resigned) else node.leader


def begin(node: Node) -> None:
    """Take the first role, from what is remembered."""
    assert isinstance(node.role, Unattached)
    if node.last_epoch > node.epoch:
        # The file of votes was lost, but the log knows that there were newer epochs.
        node.remember(node.last_epoch, None, NO_NODE)
    if node.leader == node.key.node_id:
        # It has led this epoch and may have lost the end of what it wrote: never again in the same epoch.
        node.role = Resigned((), (), node.now_ms + node.random_election_timeout_ms())
        node.emit(BecameResigned(node.epoch))
    elif node.leader != NO_NODE:
        become_follower(node, node.epoch, node.leader)
    else:
        become_unattached(node, node.epoch)


def become_unattached(node: Node, epoch: LeaderEpoch) -> None:
    """Wait in this epoch for somebody to lead it."""
    node.remember(epoch, node.voted_for if epoch == node.epoch else None, NO_NODE)
    _enter(node, Unattached(node.now_ms + node.random_election_timeout_ms()))
    node.emit(BecameUnattached(epoch))


def vote_for(node: Node, candidate: ReplicaKey) -> None:
    """Give the vote of this epoch away, and time to the candidate to win with it."""
    node.remember(node.epoch, candidate, NO_NODE)
    if isinstance(node.role, Unattached):
        node.role.election_at_ms = node.now_ms + node.random_election_timeout_ms()
    else:
        become_unattached(node, node.epoch)


def become_prospective(node: Node) -> None:
    """Ask the voters whether an election would be won."""
    assert node.may_stand
    ballot = Ballot(node.voters.latest, node.key)
    _enter(node, Prospective(ballot, node.now_ms + node.random_poll_timeout_ms()))
    node.emit(BecameProspective(node.epoch))


def become_candidate(node: Node) -> None:
    """Begin an epoch and ask for votes in it, with one's own to begin with."""
    assert node.may_stand
    node.remember(LeaderEpoch(node.epoch + 1), node.key, NO_NODE)
    ballot = Ballot(node.voters.latest, node.key)
    _enter(node, Candidate(ballot, node.now_ms + node.random_election_timeout_ms()))
    node.emit(BecameCandidate(node.epoch))


def become_leader(node: Node) -> None:
    """Lead the epoch of the candidacy. Its first record makes all that was there before committable."""
    candidate = node.role
    assert isinstance(candidate, Candidate) and candidate.ballot.won
    node.remember(node.epoch, node.key, node.key.node_id)
    node.elections_lost = 0
    voters = node.voters.latest
    role = Leader(node.end_offset, node.now_ms, node.now_ms + node.settings.check_quorum_ms)
    for key in voters.keys:
        if key.node_id != node.key.node_id:
            role.positions[key] = Position()
    _enter(node, role)
    node.emit(BecameLeader(node.epoch, role.epoch_start))
    granting = tuple(key for key in voters.keys if key.node_id in candidate.ballot.granted)
    node.append_control((LeaderChange(node.key.node_id, voters.keys, granting), *_first_voters(node)))


def _first_voters(node: Node) -> tuple[ControlRecord, ...]:
    """Voters that no record names yet, as in a new cluster, or that the new leader must correct about itself."""
    history = node.voters
    if not history.is_dynamic or not node.is_voter:
        return ()
    corrected = history.latest.with_voter(node.me)
    if history.latest_offset >= 0:
        return () if corrected == history.latest else (Voters(corrected),)
    return (KRaftLevel(DYNAMIC_VOTERS_LEVEL), Voters(corrected))


def become_follower(node: Node, epoch: LeaderEpoch, leader: NodeId) -> None:
    """Fetch from the leader of this epoch."""
    assert leader not in (NO_NODE, node.key.node_id)
    node.remember(epoch, node.voted_for if epoch == node.epoch else None, leader)
    node.elections_lost = 0
    lost_at_ms = node.now_ms + node.random_fetch_timeout_ms()
    _enter(node, Follower(leader, lost_at_ms, node.now_ms + node.settings.fetch_timeout_ms))
    node.emit(BecameFollower(epoch, leader))


def step_back(node: Node) -> None:
    """Enough voters would refuse, or do not answer: go back to where the poll began, and ask again soon."""
    again_at_ms = node.now_ms + node.random_poll_timeout_ms()
    if node.leader == NO_NODE:
        become_unattached(node, node.epoch)
        assert isinstance(node.role, Unattached)
        node.role.election_at_ms = again_at_ms
    else:
        become_follower(node, node.epoch, node.leader)
        assert isinstance(node.role, Follower)
        node.role.lost_at_ms = again_at_ms


def resign(node: Node) -> None:
    """Stop leading, and recommend the voters with the longest logs as successors."""
    role = node.role
    assert isinstance(role, Leader)
    others = [key for key in node.voters.latest.keys if key.node_id != node.key.node_id]

    def end_of(key: ReplicaKey) -> Offset:
        position = role.positions.get(key)
        return Offset(-1) if position is None else position.end_offset

    successors = tuple(sorted(others, key=end_of, reverse=True))
    _enter(node, Resigned(successors, successors, node.now_ms + node.random_election_timeout_ms()))
    node.emit(BecameResigned(node.epoch))


def learn(node: Node, epoch: LeaderEpoch, leader: NodeId) -> None:
    """Take in what any request or answer says about epoch and leader; it is true, however late it comes."""
    if epoch < node.epoch:
        return
    is_known = leader not in (NO_NODE, node.key.node_id)
    if epoch > node.epoch:
        if is_known:
            become_follower(node, epoch, leader)
        else:
            become_unattached(node, epoch)
    elif is_known and node.leader == NO_NODE:
        become_follower(node, epoch, leader)
