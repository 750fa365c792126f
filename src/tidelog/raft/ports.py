"""The two things the machine asks for: a view of its log, and random numbers. The edge provides both."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tidelog.model.ids import LeaderEpoch, Offset


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last record."""

    epoch: LeaderEpoch
    end_offset: Offset


class SnapshotId(NamedTuple):
    """A snapshot of everything below `end_offset`, whose last record was written in `epoch`."""

    end_offset: Offset
    epoch: LeaderEpoch


class LogView(Protocol):
    """What the machine may know of its log: positions and epochs, never records.

    The view shows what the log holds in memory, synced or not. It changes only by effects that were carried out, by
    appends that an `Appended` tells of next, and by a snapshot that a `SnapshotInstalled` tells of next.
    """

    @property
    def start_offset(self) -> Offset:
        """The first offset held; everything before it is in the snapshot."""

    @property
    def start_epoch(self) -> LeaderEpoch:
        """The epoch of the record before the start; 0 for a log that begins at offset 0."""

    @property
    def end_offset(self) -> Offset:
        """The offset that the next record will have."""

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The epoch of the last record, `start_epoch` when the log holds none."""

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest complete snapshot."""

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch of the record at `offset`; `start_epoch` for what is before the start."""

    def epoch_end(self, epoch: LeaderEpoch) -> EpochEnd:
        """The newest epoch up to `epoch` that the log knows, and where it ended.

        It is (`last_epoch`, `end_offset`) when `epoch` is newer than all, (`start_epoch`, `start_offset`) when older.
        """


class Entropy(Protocol):
    """Randomness, so that elections do not collide for ever; a simulation gives one with a seed."""

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1; `limit` is at least 1."""
