"""Elections: who gets our vote, and whether we get theirs.

A vote is given once in an epoch, to a log that is at least as long. A promise (pre-vote, KIP-996) binds nobody and is
refused while a leader is alive, so that a node that was cut off does not disturb the others when it comes back.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_NODE, LeaderEpoch
from tidelog.raft.effects import AnswerVote, SendVote
from tidelog.raft.events import VoteAnswered, VoteRequested
from tidelog.raft.moves import (
    become_candidate,
    become_leader,
    become_prospective,
    become_unattached,
    known_leader,
    learn,
    step_back,
    vote_for,
)
from tidelog.raft.node import Node
from tidelog.raft.roles import Candidate, Follower, Leader, Prospective
from tidelog.raft.settings import BACKOFF_DOUBLINGS_MAX, BACKOFF_UNIT_MS, NEVER


def on_vote_requested(node: Node, event: VoteRequested) -> None:
    error = _refusal(node, event)
    if error is ErrorCode.NONE and event.epoch > node.epoch:
        become_unattached(node, event.epoch)
    if error is ErrorCode.NONE and event.voter is not None and not event.voter.means(node.key):
        # The request is for one that had this node id and another disk.
        error = ErrorCode.INVALID_VOTER_KEY
    granted = error is ErrorCode.NONE and grants(node, event)
    if granted and not event.pre_vote and node.voted_for is None:
        vote_for(node, event.candidate)
    node.emit(AnswerVote(event.call_id, error, node.epoch, known_leader(node), granted))


def _refusal(node: Node, event: VoteRequested) -> ErrorCode:
    if event.epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    newest_possible = event.epoch if event.pre_vote else LeaderEpoch(event.epoch - 1)
    if event.candidate.node_id < 0 or event.end_offset < 0 or not 0 <= event.last_epoch <= newest_possible:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def grants(node: Node, event: VoteRequested) -> bool:
    """Whether this candidate gets the vote, or the promise of it, in the epoch that both are in."""
    is_long_enough = (event.last_epoch, event.end_offset) >= (node.last_epoch, node.end_offset)
    if event.pre_vote:
        return is_long_enough and not _has_living_leader(node)
    if node.leader != NO_NODE:
        return False
    if node.voted_for is not None:
        return node.voted_for == event.candidate
    return is_long_enough


def _has_living_leader(node: Node) -> bool:
    role = node.role
    if isinstance(role, Follower):
        return role.has_fetched and node.now_ms < role.lost_at_ms
    return isinstance(role, Leader)


def on_vote_answered(node: Node, event: VoteAnswered) -> None:
    learn(node, event.epoch, event.leader)
    role = node.role
    if not isinstance(role, Prospective | Candidate):
        return
    voter = role.ballot.waits_for(event.request_id)
    if voter is None:
        return  # A late answer, from an election we already left.
    if event.error not in (ErrorCode.NONE, ErrorCode.INVALID_VOTER_KEY):
        role.ballot.errands[voter].done(node.now_ms + node.settings.retry_backoff_ms)
        return
    role.ballot.record(voter, event.granted and event.error is ErrorCode.NONE)


def pursue_prospective(node: Node, role: Prospective) -> int:
    """Go on with the poll; returns when to look again."""
    if role.ballot.won:
        become_candidate(node)
        return NEVER
    if role.ballot.lost or node.now_ms >= role.give_up_at_ms or node.stopping:
        step_back(node)
        return NEVER
    return min(role.give_up_at_ms, _ask(node, role, node.epoch, pre_vote=True))


def pursue_candidate(node: Node, role: Candidate) -> int:
    """Go on with the election; returns when to look again."""
    if role.ballot.won:
        become_leader(node)
        return NEVER
    if node.stopping:
        return NEVER
    if role.again_at_ms != NEVER:
        if node.now_ms < role.again_at_ms:
            return role.again_at_ms
        become_prospective(node)
        return NEVER
    if role.ballot.lost or node.now_ms >= role.give_up_at_ms:
        role.again_at_ms = node.now_ms + _backoff_ms(node)
        return role.again_at_ms
    return min(role.give_up_at_ms, _ask(node, role, node.epoch, pre_vote=False))


def _backoff_ms(node: Node) -> int:
    """A random time that grows with each election lost in a row, so that two candidates do not meet for ever."""
    node.elections_lost += 1
    longest_ms = BACKOFF_UNIT_MS << min(node.elections_lost, BACKOFF_DOUBLINGS_MAX)
    return node.entropy.below(min(longest_ms, node.settings.election_backoff_max_ms) + 1)


def _ask(node: Node, role: Prospective | Candidate, epoch: LeaderEpoch, *, pre_vote: bool) -> int:
    settings = node.settings
    next_ms = NEVER
    for voter, errand in role.ballot.errands.items():
        wait_until = errand.wait_until(node.now_ms, settings.retry_backoff_ms)
        if wait_until == node.now_ms:
            request_id = node.next_request_id()
            node.emit(SendVote(request_id, voter, epoch, node.last_epoch, node.end_offset, pre_vote))
            wait_until = node.now_ms + settings.request_timeout_ms
            errand.sent(request_id, wait_until)
        next_ms = min(next_ms, wait_until)
    return next_ms
