"""Power is lost at every operation of a workload with compactions: the log is as before or as after, never mixed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import pytest

from harness.compaction_crashes import crash_and_check, operations_of_a_run
from tidelog.env.files import Files
from tidelog.log import recovery, swap
from tidelog.log.cleaned_segment import CleanedSegment
from tidelog.log.partition import PartitionLog
from tidelog.log.segment import SEGMENT_SUFFIXES, Segment
from tidelog.log.segments import Segments
from tidelog.log.swap import SWAP_SUFFIX

OPERATIONS = operations_of_a_run()
SHARDS = 6
SEEDS = 2


@pytest.mark.req("P3", "C9", "C10")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_whatever_operation_is_the_last_one_a_compacted_log_is_whole(shard: int) -> None:
    assert OPERATIONS > 800
    for crash_at in range(1 + shard, OPERATIONS + 1, SHARDS):
        for seed in range(SEEDS):
            again = (crash_at * 7 + seed) % 19 if seed % 2 else None
            crash_and_check(crash_at, seed * 10_007 + crash_at, crash_again_after=again)


# --- mutants: what the test above must find -------------------------------------------------------------------------


def _without_sync_before_the_swap(patch: pytest.MonkeyPatch) -> None:
    def complete(self: CleanedSegment) -> None:
        self._write()
        if self._largest[0] >= 0:
            self._time_index.add(*self._largest)
        self._offset_index.write_out()
        self._time_index.write_out()
        self._files.open(self._paths[".txnindex"], create=True).close()

    patch.setattr(CleanedSegment, "complete", complete)


def _old_segments_go_before_the_new_one_is_announced(patch: pytest.MonkeyPatch) -> None:
    begin = Segments.begin_swap

    def begin_swap(self: Segments, old: Sequence[Segment]) -> bool:
        for segment in old:
            for suffix in SEGMENT_SUFFIXES:
                with contextlib.suppress(FileNotFoundError):
                    segment.files.rename(segment.path(suffix), segment.path(suffix) + ".deleted")
        return begin(self, old)

    patch.setattr(Segments, "begin_swap", begin_swap)


def _a_recovery_forgets_the_announced_segment(patch: pytest.MonkeyPatch) -> None:
    def forget(files: Files, directory: str) -> None:
        for entry in files.list(directory):
            if entry.name.endswith(SWAP_SUFFIX):
                files.remove(f"{directory}/{entry.name}")

    patch.setattr(recovery, "complete_swaps", forget)


def _a_recovery_keeps_the_replaced_segments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(swap, "_end_of", lambda files, path, base_offset: base_offset)


def _the_last_replaced_segment_is_not_marked(patch: pytest.MonkeyPatch) -> None:
    """Without a placeholder, nothing says that trailing segments of which no record stays were replaced, too."""
    add = CleanedSegment.add

    def without_placeholders(self: CleanedSegment, header: object, batch: bytes) -> None:
        if getattr(header, "records_count", 1) or getattr(header, "producer_id", -1) >= 0:
            add(self, header, batch)  # type: ignore[arg-type]

    patch.setattr(CleanedSegment, "add", without_placeholders)


def _what_is_not_on_the_disk_supersedes_what_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "recovery_point", property(lambda self: self.end_offset))


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    _without_sync_before_the_swap,
    _old_segments_go_before_the_new_one_is_announced,
    _a_recovery_forgets_the_announced_segment,
    _a_recovery_keeps_the_replaced_segments,
    _the_last_replaced_segment_is_not_marked,
    _what_is_not_on_the_disk_supersedes_what_is,
]


@pytest.mark.req("P3", "C9")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__.strip("_").replace("_", " "))
def test_a_mutant_does_not_survive(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    for seed in range(SEEDS):
        for crash_at in range(1, OPERATIONS - 40):
            try:
                crash_and_check(crash_at, seed * 10_007 + crash_at)
            except Exception:
                return  # Caught: a key has an older value, or the log cannot be read.
    pytest.fail("nothing noticed")
