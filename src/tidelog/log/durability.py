"""What of a log is on the disk for certain, and the syncs that bring the rest there.

A sync may run in a thread while the loop appends: it notes first what there is, syncs that, and only then says so. Two
things are kept apart: up to where batches are on the disk, and of which segments everything derived is there too, for
only those are trusted after a crash. Owned by one `PartitionLog`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from threading import Lock

from tidelog.env.files import Files
from tidelog.log.epochs import LeaderEpochs
from tidelog.log.errors import is_full_disk
from tidelog.log.producer_snapshots import ProducerSnapshots
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments
from tidelog.model.ids import Offset


class Durability:
    """How far one log is synced."""

    __slots__ = (
        "_directory",
        "_files",
        "_lock",
        "_lowered",
        "_segments",
        "_synced_base",
        "flushed_ms",
        "folder_is_new",
        "has_new_names",
        "recovery_point",
    )

    def __init__(
        self, segments: Segments, recovery_point: Offset, files: Files, directory: str, flushed_ms: int
    ) -> None:
        self._segments = segments
        self._files = files
        self._directory = directory
        # Batches below it are on the disk.
        self.recovery_point = recovery_point
        # Of segments that start before it, the indexes and producer snapshots are, too.
        self._synced_base = segments.holding(recovery_point).base_offset
        self.flushed_ms = flushed_ms
        # Whether files were made or renamed, or the folder itself, without a sync of the directory since.
        self.has_new_names = True
        self.folder_is_new = False
        self._lowered = 0
        self._lock = Lock()

    def is_segment_waiting(self) -> bool:
        """Whether a sealed segment is not synced with all that belongs to it."""
        return self._synced_base < self._segments.active.base_offset

    def checkpoint_offset(self, end: Offset) -> Offset:
        """What a checkpoint may say: a start after a crash trusts segments that end there or before, indexes included.

        So it lies within the first segment whose indexes are not synced, and never at its end.
        """
        next_base = self._segments.base_after(self._synced_base)
        return min(self.recovery_point, Offset(max((next_base or end) - 1, self._synced_base)))

    def lower(self, offset: Offset) -> None:
        """Say that what is at `offset` and after it may not be on the disk; a sync under way does not change that."""
        with self._lock:
            self._lowered += 1
            self.recovery_point = min(self.recovery_point, offset)
            self._synced_base = min(self._synced_base, self._segments.holding(offset).base_offset)

    def restart_at(self, base: Offset) -> None:
        """The log was emptied, durably, and begins at `base`."""
        with self._lock:
            self._lowered += 1
            self.recovery_point = self._synced_base = base

    def sync(self, end: Offset, epochs: LeaderEpochs, snapshots: ProducerSnapshots, now_ms: int) -> None:
        """Return when everything before `end` is on the disk, which must be written already. Raises OSError."""
        self._sync(end, self._segments.copy(), epochs, snapshots)
        self.flushed_ms = now_ms

    def sync_sealed(self, epochs: LeaderEpochs, snapshots: ProducerSnapshots) -> None:
        """Sync only what no batch will be added to. Raises OSError."""
        segments = self._segments.copy()
        self._sync(segments[-1].base_offset, segments, epochs, snapshots, with_last=False)

    def _sync(
        self,
        end: Offset,
        segments: list[Segment],
        epochs: LeaderEpochs,
        snapshots: ProducerSnapshots,
        *,
        with_last: bool = True,
    ) -> None:
        lowered = self._lowered
        names, self.has_new_names = self.has_new_names, False
        for segment, following in pairwise(segments):
            if segment.base_offset >= self._synced_base:
                _unless_deleted(segment, segment.sync)
                snapshots.sync(following.base_offset)
        if with_last:
            _unless_deleted(segments[-1], segments[-1].sync_batches)
        if names:
            self._files.sync_directory(self._directory)
        if self.folder_is_new:
            self._files.sync_directory(self._directory.rpartition("/")[0])
            self.folder_is_new = False
        has_epochs = True
        if epochs.dirty:
            try:
                epochs.write(self._files, self._directory)
            except OSError as error:
                if not is_full_disk(error):
                    raise
                has_epochs = False  # The batches hold them, too: a start after a crash finds them there.
        with self._lock:
            if lowered == self._lowered:
                self.recovery_point = max(self.recovery_point, end)
                if has_epochs:
                    self._synced_base = max(self._synced_base, segments[-1].base_offset)


def _unless_deleted(segment: Segment, sync: Callable[[], None]) -> None:
    try:
        sync()
    except FileNotFoundError:
        if not segment.deleted:
            raise
