"""Changes of the voters, one at a time (KIP-853).

Two sets that differ by one voter share a majority, so a change needs nobody's leave: the leader writes the new set and
uses it at once. The next change waits until this one is committed. A new voter first catches up as an observer.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.raft.effects import AnswerVoterChange, Voters
from tidelog.raft.events import AddVoter, RemoveVoter, UpdateVoter
from tidelog.raft.moves import known_leader, resign
from tidelog.raft.node import Node
from tidelog.raft.replicas import DYNAMIC_VOTERS_LEVEL, ReplicaKey, Voter
from tidelog.raft.roles import Leader, Position, VoterChange
from tidelog.raft.settings import NEVER


def on_add_voter(node: Node, event: AddVoter) -> None:
    role = _ready(node, event.call_id)
    if role is None:
        return
    voter, voters = event.voter, node.voters.latest
    if voters.get(voter.key.node_id) is not None:
        _answer(node, event.call_id, ErrorCode.DUPLICATE_VOTER, f"Node {voter.key.node_id} is a voter already.")
    elif not _is_fit(voter):
        _answer(node, event.call_id, ErrorCode.INVALID_REQUEST, f"{voter.key} cannot be a voter of this cluster.")
    else:
        deadline_ms = node.now_ms + max(event.timeout_ms, 0)
        change = VoterChange(event.call_id, voters.with_voter(voter), deadline_ms, event.ack_when_committed)
        change.waits_for = voter.key
        role.change = change
        _write_when_caught_up(node, role, change)


def on_remove_voter(node: Node, event: RemoveVoter) -> None:
    role = _ready(node, event.call_id)
    if role is None:
        return
    voters = node.voters.latest
    if event.replica not in voters.keys or len(voters) == 1:
        _answer(node, event.call_id, ErrorCode.VOTER_NOT_FOUND, f"{event.replica} cannot be removed from {voters}.")
        return
    deadline_ms = node.now_ms + max(event.timeout_ms, 0)
    role.change = VoterChange(event.call_id, voters.without(event.replica), deadline_ms)
    _write(node, role, role.change)


def on_update_voter(node: Node, event: UpdateVoter) -> None:
    """Answered at once: a voter whose endpoints did not arrive tells them again."""
    if event.epoch != node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH if event.epoch < node.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        _answer(node, event.call_id, error)
        return
    role = _ready(node, event.call_id)
    if role is None:
        return
    voter, voters = event.voter, node.voters.latest
    if voter.key not in voters.keys:
        _answer(node, event.call_id, ErrorCode.VOTER_NOT_FOUND, f"{voter.key} is none of {voters}.")
    elif not _is_fit(voter):
        _answer(node, event.call_id, ErrorCode.INVALID_REQUEST, f"{voter.key} does not know the level of this cluster.")
    elif voters.get(voter.key.node_id) == voter:
        _answer(node, event.call_id, ErrorCode.NONE)
    else:
        role.change = VoterChange(event.call_id, voters.with_voter(voter), NEVER, ack_when_committed=False)
        _write(node, role, role.change)


def _ready(node: Node, call_id: int) -> Leader | None:
    """The role in which a change may begin; None when it may not, and that is answered."""
    role = node.role
    if not isinstance(role, Leader):
        _answer(node, call_id, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return None
    if not node.voters.is_dynamic:
        _answer(node, call_id, ErrorCode.UNSUPPORTED_VERSION, "The voters of this cluster are a setting.")
        return None
    if is_changing(node, role):
        # Apache Kafka answers so: it is worth trying again.
        _answer(node, call_id, ErrorCode.REQUEST_TIMED_OUT, "Another change of the voters is not committed yet.")
        return None
    return role


def is_changing(node: Node, role: Leader) -> bool:
    """Whether a change is under way, or may be, as long as nothing of this leader's epoch is committed."""
    return role.change is not None or not role.established or node.voters.latest_offset >= node.high_watermark


def _is_fit(voter: Voter) -> bool:
    return (
        voter.key.node_id >= 0
        and voter.key.directory_id.int != 0
        and voter.level_min <= DYNAMIC_VOTERS_LEVEL <= voter.level_max
    )


def on_fetched(node: Node, role: Leader, key: ReplicaKey) -> None:
    """A replica has fetched: perhaps it is the one that had to catch up."""
    if role.change is not None and role.change.waits_for == key:
        _write_when_caught_up(node, role, role.change)


def _write_when_caught_up(node: Node, role: Leader, change: VoterChange) -> None:
    assert change.waits_for is not None
    position = role.positions.get(change.waits_for)
    if position is not None and _is_caught_up(node, position):
        change.waits_for = None
        _write(node, role, change)


def _is_caught_up(node: Node, position: Position) -> bool:
    """Whether it had all there was a moment ago: a voter that is gone already would only raise the majority."""
    return position.caught_up_ms >= 0 and node.now_ms - position.caught_up_ms <= node.settings.fetch_timeout_ms


def _write(node: Node, role: Leader, change: VoterChange) -> None:
    """Append the new voters; from here on they decide, and the old ones no more."""
    change.offset = node.end_offset
    node.append_control((Voters(change.voters),))
    for key in change.voters.keys:
        if key.node_id != node.key.node_id:
            role.positions.setdefault(key, Position())
    # Whoever waits can have the record.
    role.parked_check_at_ms = node.now_ms
    if not change.ack_when_committed:
        _conclude(node, role, change, ErrorCode.NONE)


def on_committed(node: Node, role: Leader) -> None:
    """More is committed: perhaps the change, and perhaps it was this leader that it removed."""
    change = role.change
    if change is not None and 0 <= change.offset < node.high_watermark:
        _conclude(node, role, change, ErrorCode.NONE)
    if node.voters.latest_offset < node.high_watermark and not node.is_voter:
        resign(node)


def expire(node: Node, role: Leader) -> int:
    """Give up waiting for a change; returns when to look again. What is in the log may still be committed later."""
    change = role.change
    if change is None:
        return NEVER
    if node.now_ms < change.deadline_ms:
        return change.deadline_ms
    reason = "was not committed" if change.waits_for is None else f"waited for {change.waits_for} to catch up"
    _conclude(node, role, change, ErrorCode.REQUEST_TIMED_OUT, f"The change of the voters {reason} in time.")
    return NEVER


def _conclude(node: Node, role: Leader, change: VoterChange, error: ErrorCode, message: str = "") -> None:
    role.change = None
    _answer(node, change.call_id, error, message)


def _answer(node: Node, call_id: int, error: ErrorCode, message: str = "") -> None:
    node.emit(AnswerVoterChange(call_id, error, node.epoch, known_leader(node), message))
