"""Gives a benchmark the memory of a machine that has been up for a while: none of it free, most of it page cache.

A virtual machine may give free pages back to its host, and fetch each of them again when it is next used, at several
times the cost of a page of its own. A broker that writes gigabytes to the page cache would pay for that with half of
its time, more or less of it from second to second. Where no page is free, new ones come from what was read longest ago,
as on any machine that is in use: so free pages are filled with a file that nobody needs.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO, Final

from bench import PROJECT

# What stays free: about what the system itself keeps at hand.
LEFT_FREE_BYTES: Final = 512 << 20
READ_BYTES: Final = 4 << 20

# Pages of a file that nobody has open are free again, and soon the host's.
_kept_open: list[IO[bytes]] = []


def use_up_free_memory() -> None:
    """Have the page cache take what is free; whoever needs memory takes it from there. Kept up by this process."""
    size = _free_bytes() - LEFT_FREE_BYTES
    if size < READ_BYTES:
        return
    # All of it a hole: nothing is written, nor read from a disk.
    file = tempfile.TemporaryFile(dir=PROJECT, buffering=0)  # noqa: SIM115
    file.truncate(size)
    room = bytearray(READ_BYTES)
    for position in range(0, size, READ_BYTES):
        os.preadv(file.fileno(), [room], position)
    _kept_open.append(file)


def _free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, value = line.split(":")
        if name == "MemFree":
            return int(value.split()[0]) * 1024
    return 0
