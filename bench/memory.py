"""Keeps the machine's free memory at hand while a benchmark runs.

A virtual machine may give free pages back to its host, and fetch each of them again when it is next used, at several
times the cost of a page of its own. A broker that writes gigabytes to the page cache would pay for that, whoever goes
first after a pause most of all. Touching the pages beforehand costs both servers the same: nothing.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Final

# About what one measurement writes, and a part of what is free at most.
TOUCHED_BYTES_MAX: Final = 2 << 30
FREE_PART: Final = 0.5


def touch_free_memory() -> None:
    """Use free pages once and let them go again: they are this machine's own for a while."""
    size = min(TOUCHED_BYTES_MAX, int(_free_bytes() * FREE_PART))
    if size:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def _free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, value = line.split(":")
        if name == "MemFree":
            return int(value.split()[0]) * 1024
    return 0
