"""A running process as the kernel sees it: its CPU time, its memory, and the cores that it may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


class CpuTime(NamedTuple):
    """CPU seconds of all threads of a process since it began."""

    user: float
    system: float

    @property
    def total(self) -> float:
        return self.user + self.system

    def since(self, earlier: CpuTime) -> CpuTime:
        return CpuTime(self.user - earlier.user, self.system - earlier.system)


def cpu_time(pid: int) -> CpuTime:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return CpuTime(int(fields[11]) / TICKS_PER_SECOND, int(fields[12]) / TICKS_PER_SECOND)


def rss_bytes(pid: int) -> int:
    """Resident memory now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no resident memory: it has ended")


@contextmanager
def on_one_core(pid: int) -> Iterator[None]:
    """Have all threads of a process, and those that they start, share one core for a while."""
    cores = os.sched_getaffinity(pid)
    _allow(pid, {min(cores)})
    try:
        yield
    finally:
        _allow(pid, cores)


def _allow(pid: int, cores: set[int]) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):  # It has ended meanwhile.
            os.sched_setaffinity(int(thread.name), cores)
