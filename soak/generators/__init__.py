"""Clients that write down what they did and saw, each a process of its own. They know brokers by address alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import TypeVar

import msgspec

from soak import PROJECT

STOP_SECONDS_MAX = 90.0

W = TypeVar("W", bound=msgspec.Struct)


class Generator:
    """A client that runs until told to finish."""

    def __init__(self, module: str, work: msgspec.Struct) -> None:
        self.module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"soak.generators.{module}", msgspec.json.encode(work).decode()],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def finish(self) -> str:
        """Ask it to come to an end and wait until it has; what it printed. RuntimeError when it failed."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def check(self) -> None:
        """RuntimeError with its reason when it has come to an end unasked."""
        if self._process.poll() is not None:
            self.wait()
            raise RuntimeError(f"{self.module} ended by itself")

    def wait(self) -> str:
        """Until it ends by itself."""
        try:
            out, errors = self._process.communicate(timeout=STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"{self.module} did not come to an end") from None
        if self._process.returncode:
            raise RuntimeError(f"{self.module} failed:\n{errors.decode(errors='replace')}")
        return out.decode()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class UntilAsked:
    """Whether this process has been asked to come to an end."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def work_from_arguments(work: type[W]) -> W:
    return msgspec.json.decode(sys.argv[1], type=work)


def history_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.history"
