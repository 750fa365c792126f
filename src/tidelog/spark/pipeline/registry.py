"""What pipelines there are on this machine: a folder with their checkpoints and a small file for each.

The process of a pipeline writes its file; others read it, and ask the process to stop with a signal.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

STATE_FILE: Final = "state.json"
CHECKPOINT: Final = "checkpoint"
SPARK_LOG: Final = "spark.log"
STOP_SECONDS_MAX: Final = 60.0
# States that only a process which is alive can be in.
ACTIVE: Final = ("starting", "waiting", "running", "restarting")


@dataclass(frozen=True, slots=True)
class PipelineState:
    """How a pipeline is doing, as its process last said."""

    name: str
    file: str
    pid: int
    started_at: float
    updated_at: float
    status: str
    batch_id: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int | None = None
    batch_ms: int = 0
    failure: str | None = None
    # What is to be known of it before it has done anything.
    note: str | None = None


class Registry:
    """The folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def checkpoint_of(self, name: str) -> Path:
        return (self._folder / name / CHECKPOINT).absolute()

    def spark_log_of(self, name: str) -> Path:
        """Where Spark's own words go."""
        return (self._folder / name / SPARK_LOG).absolute()

    def write(self, state: PipelineState) -> None:
        path = self._folder / state.name / STATE_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(state)))
        fresh.replace(path)

    def read(self, name: str) -> PipelineState | None:
        try:
            tree: dict[str, Any] = json.loads((self._folder / name / STATE_FILE).read_text())
        except FileNotFoundError:
            return None
        state = PipelineState(**tree)
        if state.status in ACTIVE and not is_alive(state.pid):
            return PipelineState(**{**tree, "status": "died"})
        return state

    def all(self) -> list[PipelineState]:
        names = sorted(path.parent.name for path in self._folder.glob(f"*/{STATE_FILE}"))
        return [state for state in map(self.read, names) if state is not None]

    def stop(self, state: PipelineState) -> bool:
        """Ask a pipeline to stop and wait until it has; False when it does not."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(state.pid, signal.SIGTERM)
        end = time.monotonic() + STOP_SECONDS_MAX
        while is_alive(state.pid):
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError):
        # A process that ended and was not yet waited for is no pipeline any more.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True
