"""A broker in a process of its own that ends with the one that started it.

Used by `tidelog up --brokers` and `testing/cluster.py`. The child watches its standard input: when the parent is gone,
even by kill -9, that ends, and the child stops. `python -m tidelog.broker.child FILE` is the child's side.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidelog.model.local_cluster import show_properties
from tidelog.model.properties import read_properties

STOP_SECONDS_MAX: Final = 30.0


class BrokerProcess:
    """One broker as a child. Its data stays over `stop`, `kill` and another `start`."""

    def __init__(
        self,
        node_id: int,
        properties: Mapping[str, str],
        folder: Path,
        *,
        log_level: str = "info",
        log: Path | None = None,
    ) -> None:
        """Its properties are written to `folder`; so is what it logs, unless that goes elsewhere."""
        self.node_id = node_id
        self.properties_path = folder / f"broker-{node_id}.properties"
        self.log_path = log or folder / f"broker-{node_id}.log"
        self._properties = properties
        self._log_level = log_level
        self._process: subprocess.Popen[bytes] | None = None
        self._is_paused = False

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker was never started"
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def exit_code(self) -> int | None:
        """How it ended; negative for a signal."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start it; it is not ready yet."""
        assert not self.is_alive, f"broker {self.node_id} runs already"
        self.properties_path.parent.mkdir(parents=True, exist_ok=True)
        self.properties_path.write_text(show_properties(self._properties), encoding="latin-1")
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidelog.broker.child", str(self.properties_path), self._log_level],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                # A group of its own: Ctrl-C in the terminal is for the parent. Not a session of its own: the system
                # wakes up a stopped process of an orphaned group, and then it sees that its parent is gone.
                process_group=0,
            )
        self._is_paused = False

    def ask_to_stop(self) -> None:
        """SIGTERM, as a service manager does it."""
        self._signal(signal.SIGTERM)

    def wait(self, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """Until it has ended; the exit code. Killed when it does not in time."""
        assert self._process is not None, "the broker was never started"
        try:
            return self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"broker {self.node_id} did not stop within {seconds_max:.0f} s") from None
        finally:
            self._close_input()

    def kill(self) -> None:
        """kill -9: nothing in the broker gets to run any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._close_input()
        self._is_paused = False

    def pause(self) -> None:
        """SIGSTOP: it is there and does nothing, as a process does that is starved or swapped out."""
        self._signal(signal.SIGSTOP)
        # Not before it has stopped: the system only wakes up what has, should this process end now.
        found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if found is not None and found.si_code == os.CLD_STOPPED:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED)
        self._is_paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self._is_paused = False

    def log_tail(self, lines: int = 40) -> str:
        """The last lines that it logged."""
        text = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


def _end_with_parent() -> None:
    """Wait until the parent's end of the pipe is gone, then stop as if asked to, and soon in any case."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(STOP_SECONDS_MAX)
    os._exit(1)


def main() -> int:
    """The child's side: run the broker of a properties file."""
    from tidelog.broker.process import run_broker

    path, log_level = Path(sys.argv[1]), sys.argv[2]
    threading.Thread(target=_end_with_parent, name="tidelog-parent", daemon=True).start()
    return run_broker(read_properties(path.read_text(encoding="latin-1")), log_level=log_level)


if __name__ == "__main__":
    sys.exit(main())
