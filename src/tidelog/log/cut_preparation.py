"""What a cut of a log has to find out and may take long: who its producers were shortly before the offset.

A log makes a `CutTask` in the loop, cheaply; it is run in a thread, only reads files, and the cut gets what it found.
A cut without it finds the same by itself. Nothing here decides where a log is cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from tidelog.env.files import File, Files, read_all
from tidelog.log.batch_walk import walk
from tidelog.log.errors import CorruptLog
from tidelog.log.markers import read_marker
from tidelog.log.producer_replay import KnownProducers
from tidelog.log.producer_snapshots import decode_snapshot
from tidelog.log.producers import Producers
from tidelog.log.segment import LOG_SUFFIX, SNAPSHOT_SUFFIX, file_name
from tidelog.model.ids import Offset
from tidelog.wire.batch import HEADER_BYTES, read_header


class CutTask:
    """The way to the producers at the start of one batch, in the last of some segments."""

    __slots__ = ("_bases", "_directory", "_files", "_position", "_snapshots")

    def __init__(
        self, files: Files, directory: str, bases: Sequence[Offset], position: int, snapshots: Sequence[Offset]
    ) -> None:
        """`bases` are those of the segments up to the one with the cut; `position` is that of the batch in it.

        `snapshots` are the offsets of the producers' snapshots that may be used, ascending.
        """
        self._files = files
        self._directory = directory
        self._bases = bases
        self._position = position
        self._snapshots = snapshots

    def run(self) -> KnownProducers:
        """Read what is needed. Raises OSError and CorruptLog, when the files are not, or no longer, as expected."""
        start, producers = self._newest_snapshot()
        first = max(bisect_right(self._bases, start) - 1, 0)
        for base in self._bases[first:-1]:
            self._replay(base, None, start, producers)
        end = self._replay(self._bases[-1], self._position, start, producers)
        producers.written()
        return KnownProducers(end, producers.entries())

    def _path(self, offset: Offset, suffix: str) -> str:
        return f"{self._directory}/{file_name(offset, suffix)}"

    def _newest_snapshot(self) -> tuple[Offset, Producers]:
        for offset in reversed(self._snapshots):
            path = self._path(offset, SNAPSHOT_SUFFIX)
            try:
                return offset, Producers(decode_snapshot(read_all(self._files, path), path))
            except (FileNotFoundError, CorruptLog):
                continue
        return self._bases[0], Producers()

    def _replay(self, base: Offset, up_to: int | None, start: Offset, producers: Producers) -> Offset:
        """Take the batches from `start` on into account; where the one at `up_to` begins."""
        # A file of its own: the loop may close those of the log.
        file = self._files.open(self._path(base, LOG_SUFFIX))
        try:
            size = file.size() if up_to is None else up_to
            for landmark in walk(file, 0, size):
                if landmark.base_offset >= start:
                    _replay_batch(file, landmark.position, landmark.size, producers)
            return base if up_to is None else Offset(read_header(file.read(HEADER_BYTES, up_to)).base_offset)
        finally:
            file.close()


def _replay_batch(file: File, position: int, size: int, producers: Producers) -> None:
    header = read_header(file.read(HEADER_BYTES, position))
    if not header.has_producer_id:
        return
    base = Offset(header.base_offset)
    if not header.is_control:
        producers.staged(header, base)
        return
    marker = read_marker(file.read(size, position))
    if marker is not None:
        producers.staged_marker(header, base, marker)
