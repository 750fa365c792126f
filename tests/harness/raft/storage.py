"""A member's disk: its log, its newest snapshot, the file of votes. What was not synced may be lost in a crash."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from tidelog.log.epochs import LeaderEpochs
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.raft.ports import EpochEnd, SnapshotId
from tidelog.raft.replicas import VoterSet
from tidelog.raft.roles import Remembered


class Entry(NamedTuple):
    """One record: the epoch in which it was written, and what it says; a set of voters is one that counts."""

    epoch: LeaderEpoch
    value: object


class MemoryLog:
    """A log of entries; what lies before `synced_end` survives everything."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.epochs = LeaderEpochs()
        self.start_offset = Offset(0)
        self.start_epoch = LeaderEpoch(0)
        self.end_offset = Offset(0)
        self.synced_end = Offset(0)
        self.snapshot: SnapshotId | None = None
        self.snapshot_voters: VoterSet | None = None
        # Where the log was cut: a sync that began before says nothing about what was appended since.
        self.cuts: list[Offset] = []

    @property
    def last_epoch(self) -> LeaderEpoch:
        return self.entries[-1].epoch if self.entries else self.start_epoch

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        return self.start_epoch if offset < self.start_offset else self.entries[offset - self.start_offset].epoch

    def epoch_end(self, epoch: LeaderEpoch) -> EpochEnd:
        if epoch >= self.last_epoch:
            return EpochEnd(self.last_epoch, self.end_offset)
        found = self.epochs.end_offset_for(epoch, self.end_offset)
        if found.end_offset <= self.start_offset:
            return EpochEnd(self.start_epoch, self.start_offset)
        return EpochEnd(*found)

    def append(self, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.epoch != self.epochs.latest:
                self.epochs.assign(entry.epoch, self.end_offset)
            self.entries.append(entry)
            self.end_offset = Offset(self.end_offset + 1)

    def read(self, offset: Offset, count_max: int) -> list[Entry]:
        first = offset - self.start_offset
        return self.entries[first : first + count_max]

    def truncate(self, end: Offset) -> None:
        del self.entries[end - self.start_offset :]
        self.epochs.truncate_from_end(end)
        self.end_offset = end
        self.synced_end = min(self.synced_end, end)
        self.cuts.append(end)

    def synced(self, end: Offset, cuts_before: int) -> None:
        """A sync is done that began when the log ended at `end` and had been cut so many times."""
        self.synced_end = max(self.synced_end, min([end, *self.cuts[cuts_before:]]))

    def crash(self, random: Random) -> None:
        """Power is lost: of what was not synced, some beginning survives, and the rest is gone or torn."""
        survives = Offset(random.randint(self.synced_end, self.end_offset))
        self.truncate(survives)
        self.synced_end = survives

    def take_snapshot(self, end: Offset, voters: VoterSet | None) -> None:
        self.snapshot = SnapshotId(end, self.epoch_at(Offset(end - 1)))
        self.snapshot_voters = voters

    def forget_before_snapshot(self) -> None:
        assert self.snapshot is not None
        end, epoch = self.snapshot
        del self.entries[: end - self.start_offset]
        self.start_offset, self.start_epoch = end, epoch
        self.synced_end = max(self.synced_end, end)
        self.epochs.truncate_from_start(end)
        if not self.entries:
            self.epochs.clear()

    def install(self, snapshot: SnapshotId, voters: VoterSet | None) -> None:
        """A snapshot of another one takes the place of everything."""
        self.entries.clear()
        self.epochs.clear()
        self.snapshot, self.snapshot_voters = snapshot, voters
        self.start_offset, self.start_epoch = snapshot
        self.end_offset = self.synced_end = snapshot.end_offset
        self.cuts.append(Offset(0))


class Disk:
    """All that a member finds again when it starts."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.remembered = Remembered()
