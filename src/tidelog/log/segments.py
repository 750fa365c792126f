"""The segments of one log in order, and the files of segments that are no longer part of it.

`log/partition.py` decides when one is added or goes; here they are found, renamed and finally removed. A deleted
segment's files get the suffix `.deleted` at once and stay for a while, so that a reader in flight is not disturbed.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence

from tidelog.env.clock import Clock
from tidelog.log.config import LogConfig
from tidelog.log.file_slice import FileSlice
from tidelog.log.open_files import OpenFiles
from tidelog.log.segment import Segment
from tidelog.log.swap import announce, give_final_names, take_back
from tidelog.model.ids import Offset


class Segments:
    """At least one segment, oldest first; the last one is the active one."""

    __slots__ = (
        "_bases",
        "_clock",
        "_directory",
        "_doomed",
        "_open_files",
        "_segments",
        "_swapping",
        "active",
        "awaiting_archive",
    )

    def __init__(self, segments: list[Segment], directory: str, open_files: OpenFiles, clock: Clock) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self._directory = directory
        self._open_files = open_files
        self._clock = clock
        self._doomed: deque[tuple[int, str]] = deque()
        # Files that were set aside for the archive.
        self.awaiting_archive: list[str] = []
        # Segments that are about to be replaced by one that was compacted from them.
        self._swapping: tuple[Segment, ...] = ()

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    def copy(self) -> list[Segment]:
        """All of them as they are now; safe to call in any thread."""
        return list(self._segments)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def numbers_from(self, offset: int) -> range:
        """Numbers of the segments that may hold `offset` or what comes after it."""
        return range(max(bisect_right(self._bases, offset) - 1, 0), len(self._segments))

    def holding(self, offset: int) -> Segment:
        """The segment that holds `offset`, or would."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0)]

    def base_after(self, offset: int) -> Offset | None:
        """The base offset of the first segment that starts after `offset`."""
        number = bisect_right(self._bases, offset)
        return self._bases[number] if number < len(self._bases) else None

    def read(
        self, offset: Offset, max_bytes: int, up_to: Offset, end_offset: Offset, at_least_one_batch: bool
    ) -> FileSlice | None:
        """What `PartitionLog.read` returns, from whichever segment holds it."""
        for number in self.numbers_from(offset):
            segment = self._segments[number]
            following = end_offset if segment is self.active else self._bases[number + 1]
            end = segment.size if following <= up_to else segment.position_of(up_to)
            found = segment.read(offset, max_bytes, end, min(following, up_to), at_least_one_batch)
            if found is not None or following >= up_to or segment.position_of(offset) < end:
                return found
            # The rest of this segment was compacted away: go on with the next one.
        return None

    def add(self, base: Offset, config: LogConfig) -> Segment:
        """A new, empty, active segment at the end. Raises OSError and changes nothing then."""
        segment = Segment.create(self._open_files, self._directory, base, config, self._clock.now_ms())
        self._segments.append(segment)
        self._bases.append(base)
        self.active = segment
        return segment

    def remove_from(self, number: int, delay_ms: int) -> int:
        """Remove this segment, not the first, and all after it; returns how many."""
        count = len(self._segments) - number
        # The newest goes first: a crash in between leaves a log without a hole.
        for segment in reversed(self._segments[number:]):
            self._doom(segment, delay_ms)
        del self._segments[number:], self._bases[number:]
        self.active = self._segments[-1]
        return count

    def start_again(self, base: Offset, config: LogConfig, delay_ms: int) -> Segment:
        """Leave nothing but one empty segment at `base`. It is there before the others go, in case of a crash."""
        kept = next((segment for segment in self._segments if segment.base_offset == base), None)
        if kept is None:
            kept = Segment.create(self._open_files, self._directory, base, config, self._clock.now_ms())
        else:
            kept.truncate_to(base)
        for segment in reversed([segment for segment in self._segments if segment.base_offset > base]):
            self._doom(segment, delay_ms)
        for segment in [segment for segment in self._segments if segment.base_offset < base]:
            self._doom(segment, delay_ms)
        self._segments[:] = [kept]
        self._bases[:] = [base]
        self.active = kept
        return kept

    def remove_first(self, delay_ms: int, archive_from: Offset | None) -> Segment:
        """Remove the oldest segment; what it holds from `archive_from` on is set aside for the archive."""
        segment = self._segments[0]
        if archive_from is not None:
            self.awaiting_archive.append(segment.rename_for_archive(archive_from))
        self._doom(segment, delay_ms)
        del self._segments[0], self._bases[0]
        return segment

    def begin_swap(self, old: Sequence[Segment]) -> bool:
        """Announce the segment that is to replace these; False when they are no longer what it was made of."""
        number = self._number_of(old)
        if number is None or self._swapping:
            take_back(self._open_files.files, self._directory, old[0].base_offset)
            return False
        self._swapping = tuple(old)
        announce(self._open_files.files, self._directory, old[0].base_offset)
        return True

    def finish_swap(self, config: LogConfig, delay_ms: int) -> list[Segment]:
        """Replace the segments, once what was announced is on the disk; returns them, none when it was called off."""
        old, number = self._swapping, self._number_of(self._swapping)
        if number is None:
            self.drop_swap()
            return []
        self._swapping = ()
        for segment in reversed(old):
            self._doom(segment, delay_ms)
        base = old[0].base_offset
        give_final_names(self._open_files.files, self._directory, base)
        self._segments[number : number + len(old)] = [Segment(self._open_files, self._directory, base, config)]
        self._bases[number : number + len(old)] = [base]
        return list(old)

    def drop_swap(self) -> None:
        """Call off a swap that was begun, before the log is cut: it would bring back what is cut."""
        swapping, self._swapping = self._swapping, ()
        if swapping:
            take_back(self._open_files.files, self._directory, swapping[0].base_offset)

    def _number_of(self, old: Sequence[Segment]) -> int | None:
        """Where these segments are in the log; None when not all of them are, one after the other, and sealed."""
        for number, segment in enumerate(self._segments[:-1]):
            if old and segment is old[0]:
                return number if tuple(self._segments[number:-1][: len(old)]) == tuple(old) else None
        return None

    def _doom(self, segment: Segment, delay_ms: int) -> None:
        self.remove_later(segment.rename_to_deleted(), delay_ms)
        segment.close()

    def remove_later(self, paths: list[str], delay_ms: int) -> None:
        """Remember files that were renamed and are to be removed."""
        due = self._clock.now_ms() + delay_ms
        self._doomed.extend((due, path) for path in paths)

    def reap(self, now_ms: int) -> int:
        """Remove files that were renamed long enough ago; returns how many. Raises OSError. May run in a thread."""
        removed = 0
        # Once around: others may be added meanwhile, and nobody else takes any away.
        for _ in range(len(self._doomed)):
            due_ms, path = self._doomed.popleft()
            if due_ms > now_ms:
                self._doomed.append((due_ms, path))
                continue
            # A log that was emptied twice had two files of the same name, one after the other.
            with contextlib.suppress(FileNotFoundError):
                self._open_files.files.remove(path)
            removed += 1
        return removed

    def close(self) -> None:
        """Let go of open files."""
        for segment in self._segments:
            segment.close()
