"""Which leader epoch began at which offset (KIP-101), and the file `leader-epoch-checkpoint` that keeps it.

The log assigns an epoch when the first batch of it is appended. Followers and consumers ask where an epoch ended to
find out how far two logs agree. The file is brought up to date by a flush; after a crash the batches past the recovery
point say the rest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import Final, NamedTuple

from tidelog.env.files import Files, read_all
from tidelog.log.checkpoints import decode_lines, encode_lines, replace_file
from tidelog.log.errors import CorruptLog
from tidelog.model.ids import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset

LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"


class EpochEnd(NamedTuple):
    """The largest known epoch that is not after the one asked for, and the offset after its last record."""

    epoch: LeaderEpoch
    end_offset: Offset


UNKNOWN_EPOCH_END: Final = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochs:
    """Epochs with their start offsets, both ascending."""

    __slots__ = ("_entries", "dirty", "latest")

    def __init__(self, entries: list[tuple[LeaderEpoch, Offset]] | None = None) -> None:
        self._entries = entries or []
        self.latest = self._entries[-1][0] if self._entries else NO_EPOCH
        # Whether the file on disk says something else.
        self.dirty = False

    @property
    def entries(self) -> tuple[tuple[LeaderEpoch, Offset], ...]:
        return tuple(self._entries)

    def assign(self, epoch: LeaderEpoch, start: Offset) -> None:
        """Note that `epoch` begins at `start`; entries that contradict it go."""
        entries = self._entries
        if entries and entries[-1][0] == epoch and entries[-1][1] <= start:
            return
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start):
            entries.pop()
        entries.append((epoch, start))
        self._changed()

    def end_offset_for(self, epoch: LeaderEpoch, log_end: Offset) -> EpochEnd:
        """Where `epoch` ended, or the last one before it."""
        if epoch == NO_EPOCH:
            return UNKNOWN_EPOCH_END
        if epoch == self.latest:
            return EpochEnd(epoch, log_end)
        following = bisect_right(self._entries, epoch, key=itemgetter(0))
        if following == len(self._entries):
            return UNKNOWN_EPOCH_END  # An epoch that this log has not heard of.
        start_of_following = self._entries[following][1]
        if following == 0:
            # Older than everything kept: all it wrote has been deleted.
            return EpochEnd(epoch, start_of_following)
        return EpochEnd(self._entries[following - 1][0], start_of_following)

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch in which `offset` was written, NO_EPOCH when it is before everything known."""
        slot = bisect_right(self._entries, offset, key=itemgetter(1))
        return self._entries[slot - 1][0] if slot else NO_EPOCH

    def truncate_from_end(self, end: Offset) -> None:
        """The log ends at `end` now: epochs that began there or later never were."""
        keep = bisect_left(self._entries, end, key=itemgetter(1))
        if keep < len(self._entries):
            del self._entries[keep:]
            self._changed()

    def truncate_from_start(self, start: Offset) -> None:
        """The log starts at `start` now: older epochs go, the one that holds it begins there."""
        slot = bisect_right(self._entries, start, key=itemgetter(1))
        if (slot and self._entries[slot - 1][1] != start) or slot > 1:
            self._entries[:slot] = [(self._entries[slot - 1][0], start)]
            self._changed()

    def clear(self) -> None:
        self._entries.clear()
        self._changed()

    def _changed(self) -> None:
        self.latest = self._entries[-1][0] if self._entries else NO_EPOCH
        self.dirty = True

    def write(self, files: Files, directory: str, *, sync: bool = True) -> None:
        """Bring the file up to date."""
        self.dirty = False
        try:
            lines = [f"{epoch} {start}" for epoch, start in self.entries]
            replace_file(files, directory, LEADER_EPOCH_FILE, encode_lines(lines), sync=sync)
        except OSError:
            self.dirty = True
            raise

    @classmethod
    def read(cls, files: Files, directory: str) -> LeaderEpochs:
        """The epochs of a partition's folder; none when the file is missing. Raises CorruptLog."""
        path = f"{directory}/{LEADER_EPOCH_FILE}"
        try:
            content = read_all(files, path)
        except FileNotFoundError:
            return cls()
        try:
            pairs = [line.split() for line in decode_lines(content, path)]
            return cls([(LeaderEpoch(int(epoch)), Offset(int(start))) for epoch, start in pairs])
        except ValueError as error:
            raise CorruptLog(f"{path} is not understood: {error}") from None
