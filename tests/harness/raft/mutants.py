"""Deliberate mistakes in the machine, of the kind that has lost data elsewhere. The simulation must notice them all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from tidelog.model.ids import NO_NODE, NO_OFFSET, LeaderEpoch, NodeId, Offset
from tidelog.raft import elections, following, leading, machine, moves, node, voter_changes
from tidelog.raft.effects import PersistState
from tidelog.raft.events import FetchAnswered, VoteRequested
from tidelog.raft.node import Node
from tidelog.raft.ports import EpochEnd
from tidelog.raft.replicas import ReplicaKey
from tidelog.raft.roles import Follower, Leader, Resigned, Role, RoleName, Unattached


def _persist_no_vote(epoch: LeaderEpoch, voted_for: ReplicaKey | None, leader: NodeId) -> PersistState:
    return PersistState(epoch, None, leader)


def _persist_no_epoch(epoch: LeaderEpoch, voted_for: ReplicaKey | None, leader: NodeId) -> PersistState:
    return PersistState(LeaderEpoch(0), None, NO_NODE)


def _lead_on_when_deposed(node: Node, role: Role) -> None:
    if not (isinstance(node.role, Leader) and isinstance(role, Unattached | Follower)):
        _enter(node, role)


_enter = moves._enter


def _cut_at_the_high_watermark(node: Node, leaders_end: EpochEnd) -> Offset:
    return node.high_watermark


def _count_what_is_not_synced(node: Node, role: Leader) -> Offset:
    ends = [node.end_offset]
    for key in node.voters.latest.keys:
        if key.node_id != node.key.node_id:
            position = role.positions.get(key)
            ends.append(NO_OFFSET if position is None else position.end_offset)
    ends.sort(reverse=True)
    return ends[len(ends) // 2]


def _count_one_less_than_a_majority(node: Node, role: Leader) -> Offset:
    ends = [node.synced_end, *(position.end_offset for position in role.positions.values())]
    ends.sort(reverse=True)
    return ends[max(node.voters.latest.majority - 2, 0)]


def _vote_for_any_log(node: Node, event: VoteRequested) -> bool:
    if event.pre_vote:
        return True
    return node.leader == NO_NODE and node.voted_for in (None, event.candidate)


def _vote_again(node: Node, event: VoteRequested) -> bool:
    return (event.last_epoch, event.end_offset) >= (node.last_epoch, node.end_offset)


def _lead_on_after_a_restart(node: Node) -> None:
    if node.leader == node.key.node_id:
        node.role = Leader(node.end_offset, node.now_ms, node.now_ms + node.settings.check_quorum_ms)
    else:
        _begin(node)


_begin = moves.begin


def _take_late_answers(node: Node, event: FetchAnswered) -> None:
    role = node.role
    if isinstance(role, Follower | Unattached):
        role.errand.request_id = event.request_id
    following.on_fetch_answered(node, event)


def _never_give_up(node: Node, role: Resigned) -> int:
    return 2**63 - 1


def _instead(module: object, name: str, mistake: Any) -> AbstractContextManager[Any]:
    return patch.object(module, name, mistake)


def mistakes(name: str) -> list[AbstractContextManager[Any]]:
    """The changes to the machine that make this mistake."""
    match name:
        case "forgets its vote over a restart":
            return [_instead(node, "PersistState", _persist_no_vote)]
        case "forgets its epoch over a restart":
            return [_instead(node, "PersistState", _persist_no_epoch)]
        case "commits entries of an earlier epoch by counting":
            return [_instead(leading, "may_commit", lambda role, offset: True)]
        case "a stale leader goes on serving":
            return [_instead(moves, "_enter", _lead_on_when_deposed)]
        case "cuts at the high watermark":
            return [_instead(following, "truncation_offset", _cut_at_the_high_watermark)]
        case "changes two voters at once":
            return [_instead(voter_changes, "is_changing", lambda node, role: False)]
        case "acknowledges before the sync":
            return [_instead(following, "may_acknowledge", lambda node: True)]
        case "counts itself before the sync":
            return [_instead(leading, "majority_end", _count_what_is_not_synced)]
        case "counts one less than a majority":
            return [_instead(leading, "majority_end", _count_one_less_than_a_majority)]
        case "votes for a shorter log":
            return [_instead(elections, "grants", _vote_for_any_log)]
        case "votes twice in an epoch":
            return [_instead(elections, "grants", _vote_again)]
        case "leads on after a restart":
            return [_instead(moves, "begin", _lead_on_after_a_restart)]
        case "serves logs that differ":
            return [_instead(leading, "differs", lambda log, offset, last_epoch: None)]
        case "takes late answers for new ones":
            return [patch.dict(machine.HANDLERS, {FetchAnswered: _take_late_answers})]
        case "stays silent for ever after resigning":
            return [patch.dict(machine.PURSUITS, {RoleName.RESIGNED: _never_give_up})]
    raise KeyError(name)


MUTANTS: Final = (
    "forgets its vote over a restart",
    "forgets its epoch over a restart",
    "commits entries of an earlier epoch by counting",
    "a stale leader goes on serving",
    "cuts at the high watermark",
    "changes two voters at once",
    "acknowledges before the sync",
    "counts itself before the sync",
    "counts one less than a majority",
    "votes for a shorter log",
    "votes twice in an epoch",
    "leads on after a restart",
    "serves logs that differ",
    "takes late answers for new ones",
    "stays silent for ever after resigning",
)


@contextmanager
def mutant(name: str) -> Iterator[None]:
    """The machine with one mistake in it."""
    with ExitStack() as stack:
        for mistake in mistakes(name):
            stack.enter_context(mistake)
        yield
