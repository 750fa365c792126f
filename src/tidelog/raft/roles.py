"""The roles of a member and the legal moves between them, as a table that can be printed.

Each role is an object with what is only true while it lasts; leaving the role drops it, so nothing of an old epoch can
leak into a new one. The roles hold data and simple questions about it; `moves.py` changes them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from tidelog.model.ids import NO_OFFSET, LeaderEpoch, NodeId, Offset
from tidelog.raft.ports import SnapshotId
from tidelog.raft.replicas import ReplicaKey, VoterSet
from tidelog.raft.settings import NEVER

NO_REQUEST: Final = 0


class RoleName(Enum):
    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    FOLLOWER = "follower"
    LEADER = "leader"
    RESIGNED = "resigned"


# Every move raises the epoch or keeps it. An observer is unattached or a follower all its life.
LEGAL_MOVES: Final[dict[RoleName, dict[RoleName, str]]] = {
    RoleName.UNATTACHED: {
        RoleName.UNATTACHED: "a newer epoch began",
        RoleName.PROSPECTIVE: "no leader came forward within the election timeout",
        RoleName.CANDIDATE: "it is the only voter",
        RoleName.FOLLOWER: "it learned who leads this epoch or a newer one",
    },
    RoleName.PROSPECTIVE: {
        RoleName.UNATTACHED: "a newer epoch began, it gave its vote, or it could not win and knows no leader",
        RoleName.CANDIDATE: "a majority would vote for it",
        RoleName.FOLLOWER: "it learned of a leader, or could not win and goes back to the one it had",
    },
    RoleName.CANDIDATE: {
        RoleName.UNATTACHED: "a newer epoch began",
        RoleName.PROSPECTIVE: "it was not elected, and has waited before it tries again",
        RoleName.FOLLOWER: "another one was elected",
        RoleName.LEADER: "a majority voted for it",
    },
    RoleName.FOLLOWER: {
        RoleName.UNATTACHED: "a newer epoch began",
        RoleName.PROSPECTIVE: "its leader has not answered within the fetch timeout",
        RoleName.FOLLOWER: "a newer epoch has a leader",
    },
    RoleName.LEADER: {
        RoleName.UNATTACHED: "a newer epoch began",
        RoleName.FOLLOWER: "a newer epoch has a leader",
        RoleName.RESIGNED: "it stops, is no voter any more, or a majority does not fetch from it",
    },
    RoleName.RESIGNED: {
        RoleName.UNATTACHED: "a newer epoch began, or nobody took over within the election timeout",
        RoleName.CANDIDATE: "it is the only voter",
        RoleName.FOLLOWER: "a newer epoch has a leader",
    },
}


class Errand:
    """A request to one peer, sent again when no answer comes: at most one of them is under way."""

    __slots__ = ("deadline_ms", "request_id", "retry_at_ms")

    def __init__(self) -> None:
        self.request_id = NO_REQUEST
        self.deadline_ms = NEVER
        self.retry_at_ms = 0

    def sent(self, request_id: int, deadline_ms: int) -> None:
        self.request_id = request_id
        self.deadline_ms = deadline_ms

    def done(self, retry_at_ms: int = 0) -> None:
        """The answer is there, or none will come; not before `retry_at_ms` there is another request."""
        self.request_id = NO_REQUEST
        self.retry_at_ms = retry_at_ms

    def wait_until(self, now_ms: int, retry_backoff_ms: int) -> int:
        """When there will be something to do; `now_ms` means that a request may be sent now."""
        if self.request_id != NO_REQUEST:
            if now_ms < self.deadline_ms:
                return self.deadline_ms
            self.done(now_ms + retry_backoff_ms)
        return max(self.retry_at_ms, now_ms)


class Ballot:
    """Votes, or promises of votes, of one set of voters."""

    __slots__ = ("errands", "granted", "rejected", "voters")

    def __init__(self, voters: VoterSet, own: ReplicaKey) -> None:
        self.voters = voters
        # A candidate that is to be removed does not count itself.
        self.granted: set[NodeId] = {own.node_id} if voters.matching(own) is not None else set()
        self.rejected: set[NodeId] = set()
        # Voters that have not answered yet.
        self.errands = {key: Errand() for key in voters.keys if key.node_id != own.node_id}

    @property
    def won(self) -> bool:
        return len(self.granted) >= self.voters.majority

    @property
    def lost(self) -> bool:
        return len(self.voters) - len(self.rejected) < self.voters.majority

    def waits_for(self, request_id: int) -> ReplicaKey | None:
        return next((key for key, errand in self.errands.items() if errand.request_id == request_id), None)

    def record(self, voter: ReplicaKey, granted: bool) -> None:
        del self.errands[voter]
        (self.granted if granted else self.rejected).add(voter.node_id)


class Unattached:
    """No leader of this epoch is known. Asks around for one; a voter may stand for election after a while."""

    __slots__ = ("election_at_ms", "errand")
    name = RoleName.UNATTACHED

    def __init__(self, election_at_ms: int) -> None:
        self.election_at_ms = election_at_ms
        self.errand = Errand()


class Prospective:
    """Asks whether it would be elected, without raising the epoch (KIP-996)."""

    __slots__ = ("ballot", "give_up_at_ms")
    name = RoleName.PROSPECTIVE

    def __init__(self, ballot: Ballot, give_up_at_ms: int) -> None:
        self.ballot = ballot
        self.give_up_at_ms = give_up_at_ms


class Candidate:
    """Asks for votes in an epoch of its own, until it wins, another one does, or time is up."""

    __slots__ = ("again_at_ms", "ballot", "give_up_at_ms")
    name = RoleName.CANDIDATE

    def __init__(self, ballot: Ballot, give_up_at_ms: int) -> None:
        self.ballot = ballot
        self.give_up_at_ms = give_up_at_ms
        # Set when the election is lost: then it tries again.
        self.again_at_ms = NEVER


class Download:
    """A snapshot that is fetched piece by piece."""

    __slots__ = ("position", "snapshot")

    def __init__(self, snapshot: SnapshotId) -> None:
        self.snapshot = snapshot
        self.position = 0


class Follower:
    """Fetches from the leader. A voter that gets no answers for too long looks for another one."""

    __slots__ = ("asks_around", "download", "errand", "has_fetched", "leader", "lost_at_ms", "update", "update_at_ms")
    name = RoleName.FOLLOWER

    def __init__(self, leader: NodeId, lost_at_ms: int, update_at_ms: int) -> None:
        self.leader = leader
        # When the leader counts as lost, unless it answers before.
        self.lost_at_ms = lost_at_ms
        # Whether this leader ever answered: then it is alive, and nobody else is promised a vote.
        self.has_fetched = False
        self.errand = Errand()
        # Whether the last fetch went to somebody else: an observer whose leader is silent tries both in turn.
        self.asks_around = False
        self.download: Download | None = None
        self.update = Errand()
        self.update_at_ms = update_at_ms


class Position:
    """How far another replica has come, as its fetches tell."""

    __slots__ = ("begin", "caught_up_ms", "end_at_last_fetch", "end_offset", "fetched_ms")

    def __init__(self) -> None:
        self.end_offset: Offset = NO_OFFSET
        # When it fetched last, whatever it got, and when it last had all that there was; -1 for never.
        self.fetched_ms = -1
        self.caught_up_ms = -1
        # Where our log ended when it fetched last.
        self.end_at_last_fetch: Offset = NO_OFFSET
        self.begin = Errand()


class Parked(NamedTuple):
    """A fetch that waits until there is something to bring."""

    call_id: int
    offset: Offset
    high_watermark: Offset
    deadline_ms: int


class VoterChange:
    """The one change of voters that is under way and not answered."""

    __slots__ = ("ack_when_committed", "call_id", "deadline_ms", "offset", "voters", "waits_for")

    def __init__(self, call_id: int, voters: VoterSet, deadline_ms: int, ack_when_committed: bool = True) -> None:
        self.call_id = call_id
        self.voters = voters
        self.deadline_ms = deadline_ms
        self.ack_when_committed = ack_when_committed
        # The observer that must catch up first.
        self.waits_for: ReplicaKey | None = None
        # Where the record is, once it is in the log.
        self.offset: Offset = NO_OFFSET


class Leader:
    """Serves fetches, learns positions from them, and commits what a majority has."""

    __slots__ = (
        "begin_at_ms",
        "change",
        "check_at_ms",
        "epoch_start",
        "established",
        "parked",
        "parked_check_at_ms",
        "positions",
        "since_ms",
    )
    name = RoleName.LEADER

    def __init__(self, epoch_start: Offset, since_ms: int, check_at_ms: int) -> None:
        # The offset of the first record of this epoch.
        self.epoch_start = epoch_start
        self.since_ms = since_ms
        # Whether that record is committed.
        self.established = False
        self.positions: dict[ReplicaKey, Position] = {}
        self.parked: dict[ReplicaKey, Parked] = {}
        self.parked_check_at_ms = NEVER
        self.check_at_ms = check_at_ms
        self.begin_at_ms = since_ms
        self.change: VoterChange | None = None


class Resigned:
    """Has led this epoch and does no more. Tells the voters, so that they need not wait for the fetch timeout."""

    __slots__ = ("errands", "give_up_at_ms", "successors")
    name = RoleName.RESIGNED

    def __init__(self, successors: tuple[ReplicaKey, ...], tell: tuple[ReplicaKey, ...], give_up_at_ms: int) -> None:
        self.successors = successors
        # Voters that do not know it yet.
        self.errands = {key: Errand() for key in tell}
        self.give_up_at_ms = give_up_at_ms


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned


class Remembered(NamedTuple):
    """What the file `quorum-state` says; the defaults stand for a file that is not there."""

    epoch: LeaderEpoch = LeaderEpoch(0)
    voted_for: ReplicaKey | None = None
    leader: NodeId = NodeId(-1)
