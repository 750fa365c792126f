"""The rules that every run of a quorum must keep, watched from outside at each step.

It sees what members keep, send and announce, and trusts none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.raft.storage import Entry
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.replicas import ReplicaKey, VoterSet

if TYPE_CHECKING:
    from harness.raft.member import Member


class Violation(AssertionError):
    """A rule was broken."""


class Referee:
    """What has happened so far, as far as the rules care."""

    def __init__(self) -> None:
        self.committed: list[Entry] = []
        self.leaders: dict[LeaderEpoch, ReplicaKey] = {}
        self.votes: dict[tuple[ReplicaKey, LeaderEpoch], ReplicaKey] = {}
        self.written: dict[tuple[Offset, LeaderEpoch], tuple[object, LeaderEpoch]] = {}

    def voted(self, voter: ReplicaKey, epoch: LeaderEpoch, candidate: ReplicaKey) -> None:
        """No two votes of one replica in one epoch, whatever happens in between."""
        before = self.votes.setdefault((voter, epoch), candidate)
        if before != candidate:
            raise Violation(f"{voter} voted for {before} and for {candidate} in epoch {epoch}")

    def elected(self, member: Member, epoch: LeaderEpoch) -> None:
        """At most one leader in an epoch, and it has all that is committed."""
        before = self.leaders.setdefault(epoch, member.key)
        if before != member.key:
            raise Violation(f"{before} and {member.key} both lead epoch {epoch}")
        if not self._holds_all(member):
            raise Violation(f"{member.key} leads epoch {epoch} without all of {len(self.committed)} committed entries")

    def followed(self, leader: NodeId, epoch: LeaderEpoch) -> None:
        """Nobody follows a leader that was not elected."""
        elected = self.leaders.get(epoch)
        if elected is not None and elected.node_id != leader:
            raise Violation(f"epoch {epoch} is led by {elected}, but {leader} is followed")

    def appended(self, member: Member, first: Offset) -> None:
        """Logs match: an epoch writes an offset once, and always after the same entry."""
        log = member.disk.log
        before = log.epoch_at(Offset(first - 1))
        for offset, entry in enumerate(log.read(first, log.end_offset - first), first):
            if entry.epoch < before:
                raise Violation(f"{member.key} wrote epoch {entry.epoch} after {before} at {offset}")
            meant = self.written.setdefault((Offset(offset), entry.epoch), (entry.value, before))
            if meant != (entry.value, before):
                raise Violation(f"{member.key} has {entry} after {before} at {offset}, others {meant}")
            before = entry.epoch

    def truncates(self, member: Member, end: Offset) -> None:
        """What is committed stays with whoever has it."""
        log = member.disk.log
        if end < member.quorum.high_watermark:
            raise Violation(f"{member.key} cuts at {end}, below its high watermark {member.quorum.high_watermark}")
        if end < len(self.committed) and log.epoch_at(end) == self.committed[end].epoch:
            raise Violation(f"{member.key} cuts committed entry {end} of epoch {self.committed[end].epoch}")

    def commits(self, member: Member, before: Offset, end: Offset) -> None:
        """The high watermark only grows; what is committed is the same for all, and a majority has it on disk."""
        log = member.disk.log
        if end <= before or end > log.end_offset:
            raise Violation(f"{member.key} commits {end} after {before}, of {log.end_offset}")
        for offset in range(max(before, log.start_offset), min(end, len(self.committed))):
            entry = log.entries[offset - log.start_offset]
            if entry != self.committed[offset]:
                raise Violation(f"{member.key} commits {entry} at {offset}, others {self.committed[offset]}")
        if end > len(self.committed):
            self._commit_more(member, end)

    def _commit_more(self, member: Member, end: Offset) -> None:
        log = member.disk.log
        if not member.leads:
            raise Violation(f"{member.key} follows, and commits {end} before any leader")
        epoch = log.epoch_at(Offset(end - 1))
        voters = member.quorum.voters
        holders = [key for key in voters.keys if member.cluster.has_on_disk(key, end, epoch)]
        if len(holders) < voters.majority:
            raise Violation(f"{member.key} commits {end}, but of {voters} only {holders} have it on disk")
        self.committed += log.read(Offset(len(self.committed)), end - len(self.committed))

    def changes_voters(self, member: Member, after: VoterSet) -> None:
        """A set of voters follows one that is committed, and differs from it by one voter."""
        log = member.disk.log
        before = member.cluster.first_voters if log.snapshot_voters is None else log.snapshot_voters
        for offset in range(log.end_offset - 1, log.start_offset - 1, -1):
            value = log.entries[offset - log.start_offset].value
            if isinstance(value, VoterSet):
                before = value
                if offset >= len(self.committed) and value.keys != after.keys:
                    raise Violation(f"{member.key} changes {before} to {after}, while {before} is not committed")
                break
        if len(set(before.keys) ^ set(after.keys)) > 1:
            raise Violation(f"{member.key} changes {before} to {after} at once")

    def _holds_all(self, member: Member) -> bool:
        log = member.disk.log
        end = len(self.committed)
        if end == 0 or end <= log.start_offset:
            return True
        # The entry before has the same epoch everywhere, or the log would not match.
        return log.end_offset >= end and log.entries[end - 1 - log.start_offset] == self.committed[end - 1]

    def at_the_end(self, member: Member) -> None:
        """Entry by entry, what a member holds and knows to be committed is what was committed."""
        log = member.disk.log
        for offset in range(log.start_offset, min(member.quorum.high_watermark, len(self.committed))):
            if log.entries[offset - log.start_offset] != self.committed[offset]:
                raise Violation(f"{member.key} lost committed entry {offset}")
