"""Which voters are in force, as the log says it: each set of voters with the offset of its record.

A set counts from the moment its record is in the log, committed or not, and no longer when the record is cut off
again. Kept by the machine beside the log; it never reads the log itself.
"""

from __future__ import annotations

from tidelog.model.ids import NO_OFFSET, Offset
from tidelog.raft.replicas import ReplicaKey, VoterSet


class VoterHistory:
    """Sets of voters in the order of their records. The first one needs no record: a setting or the first snapshot."""

    __slots__ = ("_dynamic_from_start", "_entries", "latest", "latest_offset")

    def __init__(self, initial: VoterSet, *, dynamic: bool = False) -> None:
        self._dynamic_from_start = dynamic
        self._entries: list[tuple[Offset, VoterSet]] = [(NO_OFFSET, initial)]
        self.latest = initial
        self.latest_offset = NO_OFFSET

    def __repr__(self) -> str:
        return f"VoterHistory({self._entries})"

    @property
    def is_dynamic(self) -> bool:
        """Whether voters may be added and removed: they may be when they are known from records."""
        return self._dynamic_from_start or self.latest_offset != NO_OFFSET

    def add(self, offset: Offset, voters: VoterSet) -> None:
        """A record at `offset` names the voters from here on."""
        assert offset > self.latest_offset, f"voters at {offset} after those at {self.latest_offset}"
        self._entries.append((offset, voters))
        self._find_latest()

    def truncate(self, end: Offset) -> None:
        """The log ends at `end` now: sets whose records were cut off never counted."""
        while self._entries[-1][0] >= end:
            self._entries.pop()
        self._find_latest()

    def replace(self, snapshot_end: Offset, voters: VoterSet | None) -> None:
        """A snapshot took the place of the log; without voters in it the first set stays."""
        self._entries = [self._entries[0]] if voters is None else [(Offset(snapshot_end - 1), voters)]
        self._find_latest()

    def forget_before(self, offset: Offset) -> None:
        """Nobody will ask for the voters before `offset` again."""
        while len(self._entries) > 1 and self._entries[1][0] < offset:
            del self._entries[0]

    def at(self, end: Offset) -> VoterSet:
        """The voters that the log up to `end` names; a snapshot with that end holds them."""
        return next(voters for offset, voters in reversed(self._entries) if offset < end)

    def may_count(self, replica: ReplicaKey, committed_end: Offset) -> bool:
        """Whether a replica is a voter in any set that is in force, or may yet be when a later record is cut off."""
        for offset, voters in reversed(self._entries):
            if voters.matching(replica) is not None:
                return True
            if offset < committed_end:
                break
        return False

    def _find_latest(self) -> None:
        self.latest_offset, self.latest = self._entries[-1]
