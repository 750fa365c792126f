"""Following: fetch from the leader, cut what differs, append, and learn what is committed.

Also looking for a leader when none is known, and what a leader says when it begins and ends an epoch. A fetch
acknowledges all before its offset, so none is sent before that much is synced.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_NODE, NodeId, Offset
from tidelog.raft.divergence import cut_at
from tidelog.raft.effects import (
    AnswerBeginEpoch,
    AnswerEndEpoch,
    Complain,
    InstallSnapshot,
    SendFetch,
    SendFetchSnapshot,
    SendUpdateVoter,
    StoreSnapshot,
)
from tidelog.raft.events import (
    BeginEpochRequested,
    EndEpochRequested,
    FetchAnswered,
    SnapshotAnswered,
    SnapshotInstalled,
    SnapshotRejected,
    UpdateVoterAnswered,
)
from tidelog.raft.moves import become_candidate, become_prospective, known_leader, learn
from tidelog.raft.node import Node
from tidelog.raft.ports import EpochEnd
from tidelog.raft.replicas import ReplicaKey
from tidelog.raft.roles import Download, Follower, Unattached
from tidelog.raft.settings import NEVER

# --- what a leader says about its epoch -------------------------------------------------------------------------------


def on_begin_epoch_requested(node: Node, event: BeginEpochRequested) -> None:
    error = _refusal(node, event)
    if error is ErrorCode.NONE:
        learn(node, event.epoch, event.leader)
        if event.voter is not None and not event.voter.means(node.key):
            # True all the same: it leads. But it must not count on a voter that is not there any more.
            error = ErrorCode.INVALID_VOTER_KEY
    node.emit(AnswerBeginEpoch(event.call_id, error, node.epoch, known_leader(node)))


def on_end_epoch_requested(node: Node, event: EndEpochRequested) -> None:
    error = _refusal(node, event)
    if error is ErrorCode.NONE:
        learn(node, event.epoch, event.leader)
        role = node.role
        if isinstance(role, Follower) and role.leader == event.leader:
            # It said so itself: nobody need be refused for its sake any more.
            role.has_fetched = False
            role.lost_at_ms = node.now_ms + _succession_delay_ms(node, event.successors)
    node.emit(AnswerEndEpoch(event.call_id, error, node.epoch, known_leader(node)))


def _refusal(node: Node, event: BeginEpochRequested | EndEpochRequested) -> ErrorCode:
    if event.epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if event.leader < 0 or event.leader == node.key.node_id:
        return ErrorCode.INVALID_REQUEST
    if event.epoch == node.epoch and node.leader not in (NO_NODE, event.leader):
        return ErrorCode.INVALID_REQUEST  # Two leaders of one epoch: one of them is an impostor.
    return ErrorCode.NONE


def leader_is_gone(node: Node, role: Follower) -> None:
    """Whoever was asked is not there any more. If it was the leader, it will never lead this epoch again."""
    if not role.asks_around:
        role.has_fetched = False
        role.lost_at_ms = min(role.lost_at_ms, node.now_ms + node.random_poll_timeout_ms() // 4)


def _succession_delay_ms(node: Node, successors: tuple[ReplicaKey, ...]) -> int:
    """The first in the list stands at once, each further one waits twice as long as the one before."""
    longest_ms = node.settings.election_backoff_max_ms
    for place, successor in enumerate(successors):
        if successor.means(node.key):
            return 0 if place == 0 else longest_ms >> (len(successors) - 1 - place)
    return longest_ms


# --- what a fetch brought ---------------------------------------------------------------------------------------------


def on_fetch_answered(node: Node, event: FetchAnswered) -> None:
    learn(node, event.epoch, event.leader)
    role = node.role
    if not isinstance(role, Follower | Unattached) or role.errand.request_id != event.request_id:
        return  # A late answer, to somebody we are no more.
    role.errand.done(node.now_ms + node.settings.retry_backoff_ms)
    if is_from_leader(node, event) and isinstance(role, Follower):
        if _take(node, role, event):
            role.errand.done()
        role.has_fetched = True
        role.lost_at_ms = node.now_ms + node.settings.fetch_timeout_ms


def is_from_leader(node: Node, event: FetchAnswered | SnapshotAnswered) -> bool:
    """Whether the leader of our epoch said this, as such; what others serve is not to be trusted."""
    return event.error is ErrorCode.NONE and event.epoch == node.epoch and event.source == node.leader


def _take(node: Node, role: Follower, event: FetchAnswered) -> bool:
    """Take in what the leader sent; False when it makes no sense and should be asked for again."""
    if event.diverging is not None:
        return _cut(node, event.diverging)
    if event.snapshot is not None:
        if event.snapshot.end_offset <= node.high_watermark:
            node.emit(Complain(f"The leader offers the snapshot {event.snapshot}, which is behind what is committed."))
            return False
        role.download = Download(event.snapshot)
        return True
    if event.end_offset > node.end_offset:
        if event.base_offset != node.end_offset or not node.last_epoch <= event.last_epoch <= node.epoch:
            node.emit(Complain(f"Fetched batches from {event.base_offset}, but the log ends at {node.end_offset}."))
            return False
        for offset, voters in event.voter_sets:
            node.voters.add(offset, voters)
        node.append_fetched(event.batches, event.end_offset, event.last_epoch)
    committed = min(event.high_watermark, node.end_offset)
    if committed > node.high_watermark:
        node.commit(committed)
    return True


def _cut(node: Node, leaders_end: EpochEnd) -> bool:
    offset = truncation_offset(node, leaders_end)
    if offset < node.high_watermark:
        node.emit(Complain(f"The leader asks to cut at {offset}, but {node.high_watermark} is committed."))
        return False
    if offset >= node.end_offset:
        node.emit(Complain(f"The leader asks to cut at {offset}, but the log ends at {node.end_offset}."))
        return False
    node.truncate(offset)
    return True


def truncation_offset(node: Node, leaders_end: EpochEnd) -> Offset:
    return cut_at(node.log, leaders_end)


# --- snapshots --------------------------------------------------------------------------------------------------------


def on_snapshot_answered(node: Node, event: SnapshotAnswered) -> None:
    learn(node, event.epoch, event.leader)
    role = node.role
    if not isinstance(role, Follower) or role.errand.request_id != event.request_id:
        return
    role.errand.done(node.now_ms + node.settings.retry_backoff_ms)
    download = role.download
    if not is_from_leader(node, event) or download is None or event.snapshot != download.snapshot:
        # The leader may have a newer one by now: a fetch will tell.
        role.download = None
        return
    role.has_fetched = True
    role.lost_at_ms = node.now_ms + node.settings.fetch_timeout_ms
    if event.position != download.position or event.piece_bytes <= 0:
        return
    role.errand.done()
    node.emit(StoreSnapshot(download.snapshot, download.position, event.piece))
    download.position += event.piece_bytes
    if download.position >= event.size_bytes:
        role.download = None
        node.installing = download.snapshot
        node.emit(InstallSnapshot(download.snapshot))


def on_snapshot_installed(node: Node, event: SnapshotInstalled) -> None:
    assert node.installing == event.snapshot, "a snapshot is installed when the machine asks for it"
    assert node.log.start_offset == node.log.end_offset == event.snapshot.end_offset
    node.installing = None
    node.replaced_by_snapshot()
    node.voters.replace(event.snapshot.end_offset, event.voters)
    node.commit(event.snapshot.end_offset)
    _be_patient_again(node)


def on_snapshot_rejected(node: Node, event: SnapshotRejected) -> None:
    if node.installing == event.snapshot:
        node.installing = None
        _be_patient_again(node)


def _be_patient_again(node: Node) -> None:
    """It was busy with its own disk, so the leader's silence says nothing."""
    if isinstance(node.role, Follower):
        node.role.lost_at_ms = node.now_ms + node.settings.fetch_timeout_ms


def on_update_voter_answered(node: Node, event: UpdateVoterAnswered) -> None:
    learn(node, event.epoch, event.leader)
    role = node.role
    if isinstance(role, Follower) and role.update.request_id == event.request_id:
        role.update.done()


# --- what is to be sent -----------------------------------------------------------------------------------------------


def pursue_follower(node: Node, role: Follower) -> int:
    """Go on fetching; returns when to look again."""
    next_ms = NEVER
    if node.may_stand:
        if node.now_ms >= role.lost_at_ms:
            if not node.must_sync_first:
                become_prospective(node)
                return NEVER
            # It waits for its own disk: that says nothing about the leader.
            role.lost_at_ms = node.now_ms + node.settings.fetch_timeout_ms
        next_ms = min(role.lost_at_ms, _correct_endpoints(node, role))
    return min(next_ms, _fetch(node, role))


def pursue_unattached(node: Node, role: Unattached) -> int:
    """Look for a leader, or stand for election; returns when to look again."""
    next_ms = NEVER
    if node.may_stand:
        if node.voters.latest.is_only(node.key):
            become_candidate(node)
            return NEVER
        if node.now_ms >= role.election_at_ms:
            become_prospective(node)
            return NEVER
        next_ms = role.election_at_ms
    return min(next_ms, _fetch(node, role))


def _anybody(node: Node) -> NodeId | None:
    others = [key.node_id for key in node.voters.latest.keys if key.node_id != node.key.node_id]
    others += [node_id for node_id in node.bootstrap if node_id != node.key.node_id]
    return others[node.entropy.below(len(others))] if others else None


def _fetch(node: Node, role: Follower | Unattached) -> int:
    settings = node.settings
    wait_until = role.errand.wait_until(node.now_ms, settings.retry_backoff_ms)
    if wait_until != node.now_ms:
        return wait_until
    if not may_acknowledge(node) or node.installing is not None:
        return NEVER
    leader = _leader_to_ask(node, role)
    destination = _anybody(node) if leader is None else leader
    if destination is None:
        return NEVER
    request_id = node.next_request_id()
    role.errand.sent(request_id, node.now_ms + settings.request_timeout_ms)
    download = role.download if isinstance(role, Follower) and leader is not None else None
    if download is not None:
        node.emit(SendFetchSnapshot(request_id, destination, node.epoch, download.snapshot, download.position))
    else:
        wait_max_ms = 0 if leader is None else settings.fetch_wait_max_ms
        position = (node.end_offset, node.last_epoch, node.high_watermark)
        node.emit(SendFetch(request_id, destination, node.epoch, *position, wait_max_ms))
    return role.errand.deadline_ms


def may_acknowledge(node: Node) -> bool:
    """Whether all that the next fetch would acknowledge is on the disk."""
    return not node.must_sync_first


def _leader_to_ask(node: Node, role: Follower | Unattached) -> NodeId | None:
    """None when there is none, or for an observer that got no answer: then anybody may know the new one."""
    if isinstance(role, Unattached):
        return None
    has_failed = role.errand.retry_at_ms > 0
    role.asks_around = has_failed and not role.asks_around and not node.may_stand
    return None if role.asks_around else role.leader


def _correct_endpoints(node: Node, role: Follower) -> int:
    """Tell the leader from time to time when the voters' record is wrong about this node."""
    if not node.voters.is_dynamic or not node.is_voter or node.voters.latest.get(node.key.node_id) == node.me:
        return NEVER
    if node.now_ms < role.update_at_ms:
        return role.update_at_ms
    role.update_at_ms = node.now_ms + node.settings.fetch_timeout_ms
    if role.update.wait_until(node.now_ms, node.settings.retry_backoff_ms) == node.now_ms:
        request_id = node.next_request_id()
        node.emit(SendUpdateVoter(request_id, role.leader, node.epoch, node.me))
        role.update.sent(request_id, node.now_ms + node.settings.request_timeout_ms)
    return role.update_at_ms
