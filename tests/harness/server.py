"""A broker as a process of its own, ours or Apache Kafka's: started, watched, stopped, killed, started again.

Used by the tests with real clients and by the benchmark. It knows how to run a server, never what one should answer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.testing.ports import free_ports

HOST: Final = "127.0.0.1"
STOP_SECONDS_MAX: Final = 30
# ApiVersions (key 18) version 0, correlation id 1, null client id: any broker that serves requests answers it.
API_VERSIONS_REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def free_port() -> int:
    """A port that nobody uses and that no outgoing connection is given."""
    return free_ports(1)[0]


def answers(port: int, timeout_seconds: float = 5.0) -> bool:
    """Whether a broker on this port answers ApiVersions."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout_seconds) as connection:
            connection.sendall(API_VERSIONS_REQUEST)
            return len(connection.recv(8)) > 0
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started: the command, and how long it may take until it answers."""

    name: str
    command: Sequence[str]
    start_seconds_max: float


class ServerProcess:
    """One server on one port. Its data stays where it is over `stop`, `kill` and `restart`."""

    def __init__(self, launch: Launch, folder: Path, port: int) -> None:
        self.launch = launch
        self.folder = folder
        self.port = port
        self.log_path = folder / f"{launch.name}.output"
        self.start_seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait until it answers; how long that took is in `start_seconds`."""
        assert not self.is_alive()
        began = time.monotonic()
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                list(self.launch.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C in the terminal is for the test run, not for the server.
            )
        while not answers(self.port):
            if not self.is_alive():
                raise RuntimeError(f"{self.launch.name} ended at start-up:\n{self.log_tail()}")
            if time.monotonic() - began > self.launch.start_seconds_max:
                self.kill()
                raise RuntimeError(f"{self.launch.name} did not answer in time:\n{self.log_tail()}")
            time.sleep(0.005)
        self.start_seconds = time.monotonic() - began

    def stop(self) -> None:
        """Ask it to stop, as a service manager does, and wait."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"{self.launch.name} did not stop in time:\n{self.log_tail()}") from None
        self._process = None

    def freeze(self) -> None:
        """Return when nothing of it runs any more. Who is inside of the kernel stops on the way out."""
        os.kill(self.pid, signal.SIGSTOP)
        while not self._thread_states() <= {"T", "D"}:
            time.sleep(0.001)

    def _thread_states(self) -> set[str]:
        stats = Path(f"/proc/{self.pid}/task").glob("*/stat")
        return {stat.read_text().rpartition(")")[2].split()[0] for stat in stats}

    def kill(self) -> None:
        """kill -9: nothing in the server gets to run any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self, lines: int = 60) -> str:
        return "\n".join(self.log().splitlines()[-lines:])

    def rss_bytes(self) -> int:
        """Resident memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"{self.launch.name} has no resident memory: it has ended")

    def cpu_seconds(self) -> float:
        """CPU time of all its threads so far, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# What the fixture `start_broker` gives: `start_broker({"auto.create.topics.enable": "false"})`.
StartBroker = Callable[..., ServerProcess]
