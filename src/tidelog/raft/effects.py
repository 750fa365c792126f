"""What the machine wants done, and what must be durable before what is sent.

The edge carries out the effects of a step in their order, all of them before the next step. The rules, all of them:

1. `PersistState` is durable before anything after it in the list happens. A vote that was sent and forgotten is two
   votes; an epoch that was led and forgotten is led twice.
2. `AppendToLog`, `AppendFetched` and `TruncateTo` show in the `LogView` at once. They need not be durable: `SyncLog`
   asks for that, may take its time in a thread, and `SyncDone` says so.
3. The offset of a `SendFetch` acknowledges everything before it. The machine sends it only when `SyncDone` has covered
   that much, so the edge may send at once whatever it is told to send.
4. A leader counts itself only as far as `SyncDone` goes, yet lets others fetch what it has not synced: their syncs and
   its own run at the same time.
5. `InstallSnapshot` ends in `SnapshotInstalled` only when the snapshot is durable and in place of the log.
6. A node that crashed may have lost what was not synced, and nothing else. One that lost more is another replica: it
   must come back with a new directory id.
"""

from __future__ import annotations

from msgspec import Struct

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.ports import EpochEnd, SnapshotId
from tidelog.raft.replicas import ReplicaKey, Voter, VoterSet

# --- records that the quorum writes for itself, one offset each -------------------------------------------------------


class LeaderChange(Struct, frozen=True):
    """The first record of an epoch."""

    leader: NodeId
    voters: tuple[ReplicaKey, ...]
    granting: tuple[ReplicaKey, ...]


class KRaftLevel(Struct, frozen=True):
    """The level of the feature `kraft.version`, written before the first voters."""

    level: int


class Voters(Struct, frozen=True):
    """The voters in force from this record on."""

    voter_set: VoterSet


ControlRecord = LeaderChange | KRaftLevel | Voters


# --- what is kept -----------------------------------------------------------------------------------------------------


class PersistState(Struct, frozen=True):
    """Replace what the file `quorum-state` says, durably."""

    epoch: LeaderEpoch
    voted_for: ReplicaKey | None
    leader: NodeId


class AppendToLog(Struct, frozen=True):
    """Append one control batch of these records, in the epoch that this node leads."""

    epoch: LeaderEpoch
    records: tuple[ControlRecord, ...]


class AppendFetched(Struct, frozen=True):
    """Append what a `FetchAnswered` brought; the log ends at `end_offset` then."""

    batches: object
    end_offset: Offset


class TruncateTo(Struct, frozen=True):
    """Cut the log, so that it ends at `offset`."""

    offset: Offset


class SyncLog(Struct, frozen=True):
    """Make all that the log holds now durable, then tell by `SyncDone`. There is one at a time."""

    sync_id: int


class StoreSnapshot(Struct, frozen=True):
    """Write a fetched piece into the file of a snapshot that is not complete yet. Position 0 begins it anew."""

    snapshot: SnapshotId
    position: int
    piece: object


class InstallSnapshot(Struct, frozen=True):
    """All pieces are there: put the snapshot in place of the whole log, then tell by `SnapshotInstalled`."""

    snapshot: SnapshotId


# --- what is sent -----------------------------------------------------------------------------------------------------


class SendVote(Struct, frozen=True):
    request_id: int
    to: ReplicaKey
    epoch: LeaderEpoch
    last_epoch: LeaderEpoch
    end_offset: Offset
    pre_vote: bool


class SendBeginEpoch(Struct, frozen=True):
    request_id: int
    to: ReplicaKey
    epoch: LeaderEpoch


class SendEndEpoch(Struct, frozen=True):
    request_id: int
    to: ReplicaKey
    epoch: LeaderEpoch
    successors: tuple[ReplicaKey, ...]


class SendFetch(Struct, frozen=True):
    request_id: int
    to: NodeId
    epoch: LeaderEpoch
    offset: Offset
    last_epoch: LeaderEpoch
    high_watermark: Offset
    wait_max_ms: int


class SendFetchSnapshot(Struct, frozen=True):
    request_id: int
    to: NodeId
    epoch: LeaderEpoch
    snapshot: SnapshotId
    position: int


class SendUpdateVoter(Struct, frozen=True):
    request_id: int
    to: NodeId
    epoch: LeaderEpoch
    voter: Voter


# --- what is answered -------------------------------------------------------------------------------------------------


class AnswerVote(Struct, frozen=True):
    call_id: int
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId
    granted: bool = False


class AnswerBeginEpoch(Struct, frozen=True):
    call_id: int
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId


class AnswerEndEpoch(Struct, frozen=True):
    call_id: int
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId


class AnswerFetch(Struct, frozen=True):
    """Exactly one of the last three is set, or none when there is nothing new.

    `read_from` means: add batches from there on, up to the end of the log, as many as fit.
    """

    call_id: int
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId
    high_watermark: Offset
    read_from: Offset | None = None
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None


class AnswerFetchSnapshot(Struct, frozen=True):
    """Without an error: add the piece; the edge alone knows whether it still has that snapshot and position."""

    call_id: int
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId
    snapshot: SnapshotId
    position: int


class AnswerVoterChange(Struct, frozen=True):
    """The answer to `AddVoter`, `RemoveVoter` or `UpdateVoter`."""

    call_id: int
    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId
    message: str = ""


# --- what others in this process should know --------------------------------------------------------------------------


class BecameUnattached(Struct, frozen=True):
    """No leader is known in this epoch."""

    epoch: LeaderEpoch


class BecameProspective(Struct, frozen=True):
    epoch: LeaderEpoch


class BecameCandidate(Struct, frozen=True):
    epoch: LeaderEpoch


class BecameFollower(Struct, frozen=True):
    epoch: LeaderEpoch
    leader: NodeId


class BecameLeader(Struct, frozen=True):
    """Elected. What earlier epochs wrote is all before `start_offset`, and not known to be committed yet."""

    epoch: LeaderEpoch
    start_offset: Offset


class LeadershipEstablished(Struct, frozen=True):
    """The first record of this epoch is committed, and so is all before it: commands may be taken."""

    epoch: LeaderEpoch
    start_offset: Offset


class BecameResigned(Struct, frozen=True):
    epoch: LeaderEpoch


class CommittedUpTo(Struct, frozen=True):
    """Everything before `offset` will stay for ever. Never goes back."""

    offset: Offset


class StartTimer(Struct, frozen=True):
    """Send `Tick` at this time, instead of at the time asked for before."""

    deadline_ms: int


class Complain(Struct, frozen=True):
    """Something that cannot be right was refused; worth a line in the log of the process."""

    message: str


Effect = (
    PersistState
    | AppendToLog
    | AppendFetched
    | TruncateTo
    | SyncLog
    | StoreSnapshot
    | InstallSnapshot
    | SendVote
    | SendBeginEpoch
    | SendEndEpoch
    | SendFetch
    | SendFetchSnapshot
    | SendUpdateVoter
    | AnswerVote
    | AnswerBeginEpoch
    | AnswerEndEpoch
    | AnswerFetch
    | AnswerFetchSnapshot
    | AnswerVoterChange
    | BecameUnattached
    | BecameProspective
    | BecameCandidate
    | BecameFollower
    | BecameLeader
    | LeadershipEstablished
    | BecameResigned
    | CommittedUpTo
    | StartTimer
    | Complain
)
