"""Real file systems for tests: images that are mounted by loop devices, whose power can be cut, and small tmpfs.

Needs root and the right to mount, as containers often have not: `why_not` says what is missing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

# _IOR('X', 125, __u32), which ext4 and xfs both have: the file system stops at once. 2: without writing its journal.
FS_IOC_GOINGDOWN: Final = 0x8004587D
WITHOUT_THE_JOURNAL: Final = 2
MEBIBYTE: Final = 1024 * 1024
UNMOUNT_TRIES: Final = 50
# The smallest that the tools agree to make.
IMAGE_MEBIBYTES: Final = {"ext4": 128, "xfs": 320}


def why_not(kind: str) -> str | None:
    """Why file systems of this kind cannot be mounted here; None when they can."""
    if sys.platform != "linux":
        return "loop devices and tmpfs are Linux's"
    if os.geteuid() != 0:
        return "only root may mount"
    if kind != "tmpfs":
        if not Path("/dev/loop-control").exists():
            return "there are no loop devices"
        if shutil.which(f"mkfs.{kind}") is None:
            return f"mkfs.{kind} is not installed"
        if kind not in Path("/proc/filesystems").read_text():
            return f"this kernel has no {kind}"
    return None


class Disk:
    """A mounted file system. `close` takes it away again."""

    def __init__(self, kind: str, folder: Path, *, mebibytes: int | None = None) -> None:
        self.kind = kind
        self.folder = folder / "disk"
        self.folder.mkdir()
        self._image = folder / f"{kind}.image"
        if kind == "tmpfs":
            _run("mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tidelog-test", str(self.folder))
            return
        with self._image.open("wb") as image:
            image.truncate((mebibytes or IMAGE_MEBIBYTES[kind]) * MEBIBYTE)
        _run(f"mkfs.{kind}", "-q", str(self._image))
        self._mount()

    def _mount(self) -> None:
        options = "loop,errors=remount-ro" if self.kind == "ext4" else "loop"
        _run("mount", "-t", self.kind, "-o", options, str(self._image), str(self.folder))

    def cut_power(self) -> None:
        """From now on nothing gets to the disk, and all that was not written back is lost.

        Whoever writes must be frozen: ext4 and xfs (Linux 6.18) answer some syncs that are under way as if they were
        done, which nobody lives to hear when it is really the power.
        """
        directory = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, FS_IOC_GOINGDOWN, struct.pack("I", WITHOUT_THE_JOURNAL))
        finally:
            os.close(directory)

    def become_read_only(self) -> None:
        """What ext4 does by itself when it finds that its own structures are wrong."""
        device = Path(_run("findmnt", "-n", "-o", "SOURCE", str(self.folder)).strip()).name
        (Path("/sys/fs/ext4") / device / "trigger_fs_error").write_text("1")

    def mount_again(self) -> None:
        """What a machine does when its power is back. Nobody may have a file open here."""
        for _ in range(UNMOUNT_TRIES):
            if subprocess.run(["umount", str(self.folder)], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.1)
        else:
            _run("umount", str(self.folder))  # It says who is in the way: mounted twice, an image would be ruined.
        self._mount()

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, check=False)
        self._image.unlink(missing_ok=True)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
