"""What happens to a member of the quorum. The edge makes these from requests, answers, timers and finished work.

`call_id` is the edge's own name for a request that waits for an answer; `request_id` is the machine's name for a
request that it sent. Values only.
"""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_NODE, NO_OFFSET, LeaderEpoch, NodeId, Offset
from tidelog.raft.ports import EpochEnd, SnapshotId
from tidelog.raft.replicas import ReplicaKey, Voter, VoterSet

# --- from this node itself --------------------------------------------------------------------------------------------


class Started(Struct, frozen=True):
    """The first event: the log is open, what was remembered is loaded."""


class Tick(Struct, frozen=True):
    """The time of the last `StartTimer` has come. One too many does no harm."""


class Appended(Struct, frozen=True):
    """The controller of this node has appended to the log, in the epoch that this node leads."""

    epoch: LeaderEpoch
    end_offset: Offset


class SyncDone(Struct, frozen=True):
    """All that the log held when `SyncLog` with this id was carried out is on the disk."""

    sync_id: int


class SnapshotInstalled(Struct, frozen=True):
    """A fetched snapshot is complete, durable and in place of the whole log. `voters` are those named in it."""

    snapshot: SnapshotId
    voters: VoterSet | None = None


class SnapshotRejected(Struct, frozen=True):
    """A fetched snapshot could not be used; the log is as it was."""

    snapshot: SnapshotId


class Resign(Struct, frozen=True):
    """This node is about to stop: it leads no more and asks for no votes from now on."""


# --- requests of others -----------------------------------------------------------------------------------------------


class VoteRequested(Struct, frozen=True):
    """`candidate` wants to lead `epoch`, or with `pre_vote` asks whether it could (KIP-996)."""

    call_id: int
    candidate: ReplicaKey
    epoch: LeaderEpoch
    last_epoch: LeaderEpoch
    end_offset: Offset
    pre_vote: bool = False
    # Whom the candidate takes us for; None when it did not say.
    voter: ReplicaKey | None = None


class BeginEpochRequested(Struct, frozen=True):
    """`leader` was elected in `epoch`."""

    call_id: int
    leader: NodeId
    epoch: LeaderEpoch
    voter: ReplicaKey | None = None


class EndEpochRequested(Struct, frozen=True):
    """`leader` resigns; `successors` are the voters it recommends, the one with the longest log first."""

    call_id: int
    leader: NodeId
    epoch: LeaderEpoch
    successors: tuple[ReplicaKey, ...] = ()


class FetchRequested(Struct, frozen=True):
    """`replica` holds a synced log up to `offset`, whose last record is of `last_epoch`, and wants more."""

    call_id: int
    replica: ReplicaKey
    epoch: LeaderEpoch
    offset: Offset
    last_epoch: LeaderEpoch
    # What it knows to be committed (KIP-1166); the largest number when it did not say.
    high_watermark: Offset
    wait_max_ms: int = 0


class SnapshotRequested(Struct, frozen=True):
    """`replica` wants a piece of a snapshot."""

    call_id: int
    replica: ReplicaKey
    epoch: LeaderEpoch
    snapshot: SnapshotId
    position: int = 0


class AddVoter(Struct, frozen=True):
    """Make a voter of an observer; the edge has seen that it knows dynamic voters."""

    call_id: int
    voter: Voter
    timeout_ms: int
    ack_when_committed: bool = True


class RemoveVoter(Struct, frozen=True):
    call_id: int
    replica: ReplicaKey
    timeout_ms: int


class UpdateVoter(Struct, frozen=True):
    """A voter says where it listens now and which levels it knows."""

    call_id: int
    epoch: LeaderEpoch
    voter: Voter


# --- answers to what was sent -----------------------------------------------------------------------------------------


class RequestFailed(Struct, frozen=True):
    """No answer will come: the connection broke, or the answer made no sense.

    `refused`: the machine is there and the process is not; a leader that is gone is not waited for.
    """

    request_id: int
    refused: bool = False


class VoteAnswered(Struct, frozen=True):
    request_id: int
    source: NodeId
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId = NO_NODE
    granted: bool = False


class BeginEpochAnswered(Struct, frozen=True):
    request_id: int
    source: NodeId
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId = NO_NODE


class EndEpochAnswered(Struct, frozen=True):
    request_id: int
    source: NodeId
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId = NO_NODE


class FetchAnswered(Struct, frozen=True):
    """What a fetch brought: where logs differ, a snapshot to fetch, or batches (none of them: nothing new).

    The edge has checked the batches and looked into the control batches among them: `voter_sets` are the voters they
    name, with the offsets of their records. `batches` goes into `AppendFetched` as it is.
    """

    request_id: int
    source: NodeId
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId = NO_NODE
    high_watermark: Offset = NO_OFFSET
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    batches: object = None
    base_offset: Offset = NO_OFFSET
    end_offset: Offset = NO_OFFSET
    last_epoch: LeaderEpoch = LeaderEpoch(0)
    voter_sets: tuple[tuple[Offset, VoterSet], ...] = ()


class SnapshotAnswered(Struct, frozen=True):
    """A piece of a snapshot of `size_bytes`; `piece` goes into `StoreSnapshot` as it is."""

    request_id: int
    source: NodeId
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId = NO_NODE
    snapshot: SnapshotId | None = None
    size_bytes: int = 0
    position: int = 0
    piece_bytes: int = 0
    piece: object = None


class UpdateVoterAnswered(Struct, frozen=True):
    request_id: int
    source: NodeId
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId = NO_NODE


Event = (
    Started
    | Tick
    | Appended
    | SyncDone
    | SnapshotInstalled
    | SnapshotRejected
    | Resign
    | VoteRequested
    | BeginEpochRequested
    | EndEpochRequested
    | FetchRequested
    | SnapshotRequested
    | AddVoter
    | RemoveVoter
    | UpdateVoter
    | RequestFailed
    | VoteAnswered
    | BeginEpochAnswered
    | EndEpochAnswered
    | FetchAnswered
    | SnapshotAnswered
    | UpdateVoterAnswered
)
