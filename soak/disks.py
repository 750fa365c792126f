"""What a sync is worth while its file system is shut down: threads write and sync, the power is cut, all is counted.

No broker is in it. `docs/disk.md` tells what it found, and why tests freeze a broker before they cut its power. Needs
root, as `harness/disks.py` does.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

from harness.disks import Disk
from tidelog.env.files import RealFiles

WRITERS: Final = 4
WRITE_BYTES_MAX: Final = 16_000
CUT_AFTER_SECONDS: Final = (0.02, 0.3)


class Lost(NamedTuple):
    """Cuts after which bytes were missing whose sync had returned success: before the cut, or while it happened."""

    synced_before: int
    under_way: int


class Writer(threading.Thread):
    """Appends to a file and syncs it until that fails; `promised` is what the last sync that succeeded covers."""

    def __init__(self, path: Path, random: random.Random) -> None:
        super().__init__()
        self.path = path
        self.promised = 0
        self._random = random
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.fsync(self._descriptor)

    def run(self) -> None:
        end = 0
        try:
            while True:
                end += os.pwrite(self._descriptor, bytes(self._random.randint(1, WRITE_BYTES_MAX)), end)
                os.fdatasync(self._descriptor)
                self.promised = end
        except OSError:
            os.close(self._descriptor)

    def stored(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0


def cut_often(kind: str, cuts: int, folder: Path, seed: int) -> Lost:
    chance = random.Random(seed)
    disk = Disk(kind, folder)
    before = under_way = 0
    try:
        for _ in range(cuts):
            writers = [Writer(disk.folder / str(number), chance) for number in range(WRITERS)]
            RealFiles().sync_directory(str(disk.folder))
            for writer in writers:
                writer.start()
            time.sleep(chance.uniform(*CUT_AFTER_SECONDS))
            safe = [writer.promised for writer in writers]
            disk.cut_power()
            for writer in writers:
                writer.join()
            disk.mount_again()
            stored = [writer.stored() for writer in writers]
            before += any(found < promised for found, promised in zip(stored, safe, strict=True))
            under_way += any(found < writer.promised for found, writer in zip(stored, writers, strict=True))
            for writer in writers:
                writer.path.unlink(missing_ok=True)
    finally:
        disk.close()
    return Lost(before, under_way)
