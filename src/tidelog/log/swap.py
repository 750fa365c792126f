"""Putting a compacted segment in the place of those it was made of, so that a crash leaves the old ones or the new one.

First its files, which are on the disk by then, are renamed from `.cleaned` to `.swap`, the batches last: from there on
it counts. When that is on the disk, the old segments are renamed to `.deleted`, then the new files get their final
names, the batches last again. Whoever finds a `.log.swap` at start completes the rest. Called by `log/segments.py` and
`log/recovery.py`.
"""

from __future__ import annotations

import contextlib
from typing import Final

from tidelog.env.files import Files
from tidelog.log.batch_walk import walk
from tidelog.log.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, file_name

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
# The batches come last: their name decides what the other files are.
_IN_ORDER: Final = tuple(reversed(SEGMENT_SUFFIXES))
assert _IN_ORDER[-1] == LOG_SUFFIX


def _path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{file_name(base_offset, suffix)}"


def announce(files: Files, directory: str, base_offset: int) -> None:
    """Let the cleaned files count from now on. Durable when the directory is synced."""
    for suffix in _IN_ORDER:
        path = _path(directory, base_offset, suffix)
        files.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)


def take_back(files: Files, directory: str, base_offset: int) -> None:
    """The old segments have changed meanwhile: forget the new one, its batches first."""
    for suffix in reversed(_IN_ORDER):
        for state in (SWAP_SUFFIX, CLEANED_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                files.remove(_path(directory, base_offset, suffix) + state)


def give_final_names(files: Files, directory: str, base_offset: int) -> None:
    """The last step. What a crash interrupted is done from where it stopped."""
    for suffix in _IN_ORDER:
        path = _path(directory, base_offset, suffix)
        with contextlib.suppress(FileNotFoundError):
            files.rename(path + SWAP_SUFFIX, path)


def complete_swaps(files: Files, directory: str) -> None:
    """Complete the swaps that were announced before a crash, and forget those that were not. Raises CorruptLog."""
    names = [entry.name for entry in files.list(directory) if not entry.is_directory]
    announced = sorted(_base_of(name) for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    unannounced = [name for name in names if name.endswith(SWAP_SUFFIX) and _base_of(name) not in announced]
    for name in unannounced:
        files.remove(f"{directory}/{name}")
    for base in announced:
        end = _end_of(files, _path(directory, base, LOG_SUFFIX) + SWAP_SUFFIX, base)
        replaced = sorted(
            (name for name in names if name.endswith(SEGMENT_SUFFIXES) and base < _base_of(name) < end), reverse=True
        )
        for name in replaced:
            files.remove(f"{directory}/{name}")
        give_final_names(files, directory, base)
    if announced:
        files.sync_directory(directory)


def _base_of(name: str) -> int:
    digits = name.partition(".")[0]
    return int(digits) if digits.isdigit() else -1


def _end_of(files: Files, path: str, base_offset: int) -> int:
    """The offset after the last batch. It lies behind the base offset of every segment that this one replaces."""
    file = files.open(path)
    try:
        end = base_offset
        for landmark in walk(file, 0, file.size()):
            end = landmark.last_offset + 1
        return end
    finally:
        file.close()
