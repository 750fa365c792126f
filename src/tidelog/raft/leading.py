"""Leading: serve fetches, learn positions from them, commit what a majority of the voters has.

Only a record of the leader's own epoch is committed by counting; what earlier epochs wrote is committed with it. A
leader that a majority does not fetch from resigns, so that nobody waits for one that was cut off.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, LeaderEpoch, Offset
from tidelog.raft import voter_changes
from tidelog.raft.divergence import differs
from tidelog.raft.effects import (
    AnswerFetch,
    AnswerFetchSnapshot,
    LeadershipEstablished,
    SendBeginEpoch,
    SendEndEpoch,
)
from tidelog.raft.events import (
    Appended,
    BeginEpochAnswered,
    EndEpochAnswered,
    FetchRequested,
    SnapshotRequested,
)
from tidelog.raft.moves import become_candidate, become_unattached, known_leader, learn, resign
from tidelog.raft.node import Node
from tidelog.raft.ports import EpochEnd, SnapshotId
from tidelog.raft.replicas import ReplicaKey
from tidelog.raft.roles import Leader, Parked, Position, Resigned
from tidelog.raft.settings import NEVER, OBSERVER_SESSION_MS, REPLICAS_TRACKED_MAX

# --- serving ----------------------------------------------------------------------------------------------------------


def on_fetch_requested(node: Node, event: FetchRequested) -> None:
    refusal = refuses(node, event)
    role = node.role
    if refusal is not ErrorCode.NONE or not isinstance(role, Leader):
        node.emit(AnswerFetch(event.call_id, refusal, node.epoch, known_leader(node), NO_OFFSET))
        if event.epoch > node.epoch and event.replica.node_id >= 0:
            # Somebody knows of a newer epoch: this one is over, or nobody who knows better could ever follow.
            become_unattached(node, event.epoch)
        return
    if event.offset < 0 or not 0 <= event.last_epoch <= event.epoch or event.replica.node_id == node.key.node_id:
        node.emit(AnswerFetch(event.call_id, ErrorCode.INVALID_REQUEST, node.epoch, node.leader, NO_OFFSET))
        return
    key = _note_fetch(node, role, event.replica)
    difference = differs(node.log, event.offset, event.last_epoch)
    if difference is not None:
        node.emit(_answer(node, event.call_id, difference=difference))
        return
    _note_position(node, role, key, event.offset)
    voter_changes.on_fetched(node, role, key)
    advance(node, role)
    if node.role is not role:
        node.emit(AnswerFetch(event.call_id, refuses(node, event), node.epoch, known_leader(node), NO_OFFSET))
    elif _has_news_for(node, event) or event.wait_max_ms <= 0 or key not in role.positions:
        node.emit(_answer(node, event.call_id, read_from=event.offset))
    else:
        _park(node, role, key, event)


def refuses(node: Node, event: FetchRequested | SnapshotRequested) -> ErrorCode:
    """Only the leader of an epoch serves, and only those who are in the same epoch."""
    if event.epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if event.epoch > node.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if isinstance(node.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _answer(
    node: Node, call_id: int, *, read_from: Offset | None = None, difference: EpochEnd | SnapshotId | None = None
) -> AnswerFetch:
    return AnswerFetch(
        call_id,
        ErrorCode.NONE,
        node.epoch,
        node.leader,
        node.high_watermark,
        read_from if read_from is not None and read_from < node.end_offset else None,
        difference if isinstance(difference, EpochEnd) else None,
        difference if isinstance(difference, SnapshotId) else None,
    )


def _note_fetch(node: Node, role: Leader, replica: ReplicaKey) -> ReplicaKey:
    """It is alive; returns the key it is known by."""
    key = node.voters.latest.matching(replica) or replica
    position = role.positions.get(key)
    if position is None and replica.node_id >= 0 and len(role.positions) < REPLICAS_TRACKED_MAX:
        position = role.positions[key] = Position()
    if position is not None:
        position.fetched_ms = node.now_ms
    return key


def _note_position(node: Node, role: Leader, key: ReplicaKey, offset: Offset) -> None:
    position = role.positions.get(key)
    if position is None:
        return
    if offset >= node.end_offset or offset >= position.end_at_last_fetch >= 0:
        # It has all there was when it asked the last time, so it keeps up.
        position.caught_up_ms = node.now_ms
    position.end_offset = offset
    position.end_at_last_fetch = node.end_offset


def _has_news_for(node: Node, fetch: FetchRequested | Parked) -> bool:
    """Whether there are records to bring, or more of them are committed than it knows (KIP-1166)."""
    return fetch.offset < node.end_offset or fetch.high_watermark < node.high_watermark


def _park(node: Node, role: Leader, key: ReplicaKey, event: FetchRequested) -> None:
    former = role.parked.get(key)
    if former is not None:
        # It asks again: the one before has been given up, and one place for each is enough.
        node.emit(_answer(node, former.call_id))
    deadline_ms = node.now_ms + min(event.wait_max_ms, node.settings.fetch_wait_max_ms)
    role.parked[key] = Parked(event.call_id, event.offset, event.high_watermark, deadline_ms)
    role.parked_check_at_ms = min(role.parked_check_at_ms, deadline_ms)


def _serve_parked(node: Node, role: Leader) -> int:
    """Answer the waiting fetches for which there is something, or no time left; returns when to look again."""
    if role.parked_check_at_ms > node.now_ms:
        return role.parked_check_at_ms
    next_ms = NEVER
    for key, parked in list(role.parked.items()):
        if _has_news_for(node, parked) or parked.deadline_ms <= node.now_ms:
            del role.parked[key]
            node.emit(_answer(node, parked.call_id, read_from=parked.offset))
        else:
            next_ms = min(next_ms, parked.deadline_ms)
    role.parked_check_at_ms = next_ms
    return next_ms


def on_snapshot_requested(node: Node, event: SnapshotRequested) -> None:
    refusal = refuses(node, event)
    if refusal is ErrorCode.NONE and isinstance(node.role, Leader):
        _note_fetch(node, node.role, event.replica)
    answer = AnswerFetchSnapshot(event.call_id, refusal, node.epoch, known_leader(node), event.snapshot, event.position)
    node.emit(answer)
    if event.epoch > node.epoch and event.replica.node_id >= 0:
        become_unattached(node, event.epoch)


# --- committing -------------------------------------------------------------------------------------------------------


def on_appended(node: Node, event: Appended) -> None:
    role = node.role
    assert isinstance(role, Leader) and event.epoch == node.epoch, "only a leader appends, in its own epoch"
    assert event.end_offset == node.log.end_offset >= node.end_offset
    node.grown(event.end_offset, event.epoch)
    role.parked_check_at_ms = node.now_ms


def advance(node: Node, role: Leader) -> None:
    """Commit what a majority of the voters holds on disk."""
    offset = majority_end(node, role)
    if offset > node.high_watermark and may_commit(role, offset):
        node.commit(offset)
        if not role.established:
            role.established = True
            node.emit(LeadershipEstablished(node.epoch, role.epoch_start))
        role.parked_check_at_ms = node.now_ms
        voter_changes.on_committed(node, role)


def may_commit(role: Leader, offset: Offset) -> bool:
    """Copies of an earlier epoch's records prove nothing: a longer log elsewhere may still win and replace them."""
    return offset > role.epoch_start


def majority_end(node: Node, role: Leader) -> Offset:
    """The offset up to which a majority of the voters has synced."""
    voters = node.voters.latest
    own = voters.matching(node.key)
    ends = []
    for key in voters.keys:
        if key == own:
            ends.append(node.synced_end)
        else:
            position = role.positions.get(key)
            ends.append(NO_OFFSET if position is None else position.end_offset)
    ends.sort(reverse=True)
    return ends[voters.majority - 1]


# --- keeping the epoch going ------------------------------------------------------------------------------------------


def pursue_leader(node: Node, role: Leader) -> int:
    """Keep in touch with the voters; returns when to look again."""
    now_ms = node.now_ms
    advance(node, role)
    if node.role is not role:
        return NEVER
    if node.stopping:
        resign(node)
        return NEVER
    if node.voters.latest.is_only(node.key):
        # Nobody to keep in touch with, and nobody whose silence matters.
        role.check_at_ms = now_ms + node.settings.check_quorum_ms
        role.begin_at_ms = now_ms
        return min(_serve_parked(node, role), voter_changes.expire(node, role))
    if now_ms >= role.check_at_ms:
        role.check_at_ms = _majority_fetched_ms(node, role) + node.settings.check_quorum_ms
        if now_ms >= role.check_at_ms:
            resign(node)
            return NEVER
        _forget_observers(node, role)
    if role.begin_at_ms <= now_ms:
        _begin_epoch(node, role)
        role.begin_at_ms = now_ms + node.settings.begin_epoch_ms
    return min(role.check_at_ms, role.begin_at_ms, _serve_parked(node, role), voter_changes.expire(node, role))


def _majority_fetched_ms(node: Node, role: Leader) -> int:
    """The newest time since which a majority, this node included, has fetched."""
    voters = node.voters.latest
    own = voters.matching(node.key)
    times = []
    for key in voters.keys:
        if key == own:
            times.append(node.now_ms)
        else:
            position = role.positions.get(key)
            times.append(role.since_ms if position is None else max(position.fetched_ms, role.since_ms))
    times.sort(reverse=True)
    return times[voters.majority - 1]


def _begin_epoch(node: Node, role: Leader) -> None:
    """Make the leader known to the voters that do not fetch."""
    settings = node.settings
    for key in node.voters.latest.keys:
        if key.node_id == node.key.node_id:
            continue
        position = role.positions.setdefault(key, Position())
        if position.fetched_ms >= 0 and node.now_ms - position.fetched_ms < settings.begin_epoch_ms:
            continue
        if position.begin.wait_until(node.now_ms, settings.retry_backoff_ms) <= node.now_ms:
            request_id = node.next_request_id()
            node.emit(SendBeginEpoch(request_id, key, node.epoch))
            position.begin.sent(request_id, node.now_ms + settings.request_timeout_ms)


def _forget_observers(node: Node, role: Leader) -> None:
    voters = node.voters.latest
    for key, position in list(role.positions.items()):
        if voters.matching(key) is None and node.now_ms - position.fetched_ms > OBSERVER_SESSION_MS:
            del role.positions[key]


def on_begin_epoch_answered(node: Node, event: BeginEpochAnswered) -> None:
    learn(node, event.epoch, event.leader)
    role = node.role
    if isinstance(role, Leader):
        for position in role.positions.values():
            if position.begin.request_id == event.request_id:
                position.begin.done()


# --- having led -------------------------------------------------------------------------------------------------------


def pursue_resigned(node: Node, role: Resigned) -> int:
    """Tell the voters; returns when to look again."""
    settings = node.settings
    next_ms = NEVER
    if not node.stopping:
        if node.voters.latest.is_only(node.key):
            become_candidate(node)
            return NEVER
        if node.now_ms >= role.give_up_at_ms:
            # In an epoch of its own nobody is led any more, least of all by this node.
            become_unattached(node, LeaderEpoch(node.epoch + 1))
            return NEVER
        next_ms = role.give_up_at_ms
    for key, errand in role.errands.items():
        wait_until = errand.wait_until(node.now_ms, settings.retry_backoff_ms)
        if wait_until == node.now_ms:
            request_id = node.next_request_id()
            node.emit(SendEndEpoch(request_id, key, node.epoch, role.successors))
            wait_until = node.now_ms + settings.request_timeout_ms
            errand.sent(request_id, wait_until)
        next_ms = min(next_ms, wait_until)
    return next_ms


def on_end_epoch_answered(node: Node, event: EndEpochAnswered) -> None:
    learn(node, event.epoch, event.leader)
    role = node.role
    if isinstance(role, Resigned):
        for key, errand in list(role.errands.items()):
            if errand.request_id == event.request_id:
                del role.errands[key]
