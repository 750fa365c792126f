"""Logs that are wrong on purpose: losing power in their workload must show it, or the other tests show nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.log_workload import NoSuchOperation, crash_and_check, operations_of_workload
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log import repair
from tidelog.log.durability import Durability
from tidelog.log.segment import Segment

Patch = pytest.MonkeyPatch


def acknowledges_before_the_sync(patch: Patch) -> None:
    patch.setattr(Segment, "sync_batches", lambda self: None)


def does_not_check_checksums(patch: Patch) -> None:
    patch.setattr(repair, "crc32c", _AnyChecksum())


class _AnyChecksum:
    """Equal to whatever is compared with it."""

    def __call__(self, data: object) -> _AnyChecksum:
        return self

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def does_not_cut_the_torn_end(patch: Patch) -> None:
    patch.setattr(Segment, "_cut", lambda self, size: setattr(self, "_size", size))


def trusts_indexes_after_a_crash(patch: Patch) -> None:
    patch.setattr(Segment, "begin_rebuild", lambda self: None)
    patch.setattr(Segment, "add_row", lambda self, *row: None)


def trusts_segments_whose_indexes_are_not_synced(patch: Patch) -> None:
    patch.setattr(Durability, "checkpoint_offset", lambda self, end: self.recovery_point)
    patch.setattr(Segment, "sync", Segment.sync_batches)


def does_not_sync_new_names(patch: Patch) -> None:
    patch.setattr(SimulatedFiles, "sync_directory", lambda self, path: None)


def keeps_the_recovery_point_when_it_truncates(patch: Patch) -> None:
    patch.setattr(Durability, "lower", lambda self, offset: None)


def accepts_holes(patch: Patch) -> None:
    patch.setattr(repair, "_may_follow", lambda offset, expected, gaps_below: offset >= expected)


MUTANTS: list[Callable[[Patch], None]] = [
    acknowledges_before_the_sync,
    does_not_check_checksums,
    does_not_cut_the_torn_end,
    trusts_indexes_after_a_crash,
    trusts_segments_whose_indexes_are_not_synced,
    does_not_sync_new_names,
    keeps_the_recovery_point_when_it_truncates,
    accepts_holes,
]


@pytest.mark.req("C9")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_log_that_is_caught(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    operations = operations_of_workload()
    mutant(monkeypatch)

    for seed in range(40):
        for crash_at in range(1, operations + 1, 3):
            try:
                crash_and_check(crash_at, seed * 10_007 + crash_at)
            except NoSuchOperation:
                break
            except Exception:
                return  # Caught: what was flushed is lost, or the log cannot be read.
    pytest.fail("nothing noticed")
