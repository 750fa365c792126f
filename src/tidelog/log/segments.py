"""The segments of one log in order, and the files of segments that are no longer part of it.

`log/partition.py` decides when one is added or goes; here they are found, renamed and finally removed. A deleted
segment's files get the suffix `.deleted` at once and stay for a while, so that a reader in flight is not disturbed.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator

from tidelog.env.clock import Clock
from tidelog.log.config import LogConfig
from tidelog.log.open_files import OpenFiles
from tidelog.log.segment import Segment
from tidelog.model.ids import Offset


class Segments:
    """At least one segment, oldest first; the last one is the active one."""

    __slots__ = ("_bases", "_clock", "_directory", "_doomed", "_open_files", "_segments", "active")

    def __init__(self, segments: list[Segment], directory: str, open_files: OpenFiles, clock: Clock) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self._directory = directory
        self._open_files = open_files
        self._clock = clock
        self._doomed: list[tuple[int, str]] = []

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

    def remove_first(self, delay_ms: int) -> Segment:
        """Remove the oldest segment."""
        segment = self._segments[0]
        self._doom(segment, delay_ms)
        del self._segments[0], self._bases[0]
        return segment

    def _doom(self, segment: Segment, delay_ms: int) -> None:
        self.remove_later(segment.rename_to_deleted(), delay_ms)
        segment.close()

    def remove_later(self, paths: list[str], delay_ms: int) -> None:
        """Remember files that were renamed and are to be removed."""
        due = self._clock.now_ms() + delay_ms
        self._doomed += [(due, path) for path in paths]

    def reap(self, now_ms: int) -> int:
        """Remove files that were renamed long enough ago; returns how many. Raises OSError."""
        due = [path for deadline, path in self._doomed if deadline <= now_ms]
        self._doomed = [doomed for doomed in self._doomed if doomed[0] > now_ms]
        for path in due:
            # A log that was emptied twice had two files of the same name, one after the other.
            with contextlib.suppress(FileNotFoundError):
                self._open_files.files.remove(path)
        return len(due)

    def close(self) -> None:
        """Let go of open files."""
        for segment in self._segments:
            segment.close()
