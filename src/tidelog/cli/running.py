"""Brokers of this user on this machine: each announces itself in a small file, so that it can be found and stopped.

Used by `server-start`, its `-daemon` form and `server-stop`. The folder is TIDELOG_RUN_DIR, or one in the user's
runtime or temporary directory. A file whose process is gone, or whose number another process got, counts for nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tidelog.cli.failures import BadInput
from tidelog.cli.output import say

RUN_DIR_VARIABLE: Final = "TIDELOG_RUN_DIR"
LOG_DIR_VARIABLE: Final = "LOG_DIR"
DAEMON_LOG: Final = "kafkaServer.out"
START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.02
LOG_LINES_SHOWN: Final = 20


class Server(msgspec.Struct, frozen=True):
    """A broker as it announced itself. `began` tells its process from a later one of the same number."""

    pid: int
    began: str
    node_id: int | None
    port: int


@dataclass(slots=True)
class Announcement:
    """This process's own file."""

    path: Path
    node_id: int | None

    def ready(self, port: int) -> None:
        """The broker answers on a port."""
        server = Server(os.getpid(), _began(os.getpid()), self.node_id, port)
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(server))
        temporary.replace(self.path)


@contextlib.contextmanager
def announce(properties: Mapping[str, str]) -> Iterator[Announcement]:
    """Announce the broker of this process for as long as it runs."""
    announcement = Announcement(_file_of(os.getpid()), _node_id(properties))
    try:
        yield announcement
    finally:
        announcement.path.unlink(missing_ok=True)


def announced_servers() -> list[Server]:
    """The brokers that run."""
    servers = []
    for path in sorted(run_directory().glob("*.json")):
        try:
            server = msgspec.json.decode(path.read_bytes(), type=Server)
        except (OSError, msgspec.DecodeError):
            continue
        if _began(server.pid) == server.began:
            servers.append(server)
        else:
            path.unlink(missing_ok=True)
    return servers


def stop(server: Server) -> bool:
    """Ask a broker to stop and wait until it has; False when it did not in time."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(server.pid, signal.SIGTERM)
    end = time.monotonic() + STOP_SECONDS_MAX
    while _began(server.pid) == server.began:
        if time.monotonic() > end:
            say(f"The broker on port {server.port} (process {server.pid}) did not stop in time.")
            return False
        time.sleep(POLL_SECONDS)
    return True


def start_in_background(file: Path, properties: Mapping[str, str], overrides: Mapping[str, str]) -> int:
    """Start a broker that outlives this process; 0 once it answers."""
    log = Path(os.environ.get(LOG_DIR_VARIABLE) or "logs") / DAEMON_LOG
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tidelog", "server-start", str(file)]
    for key, value in overrides.items():
        command += ["--override", f"{key}={value}"]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    end = time.monotonic() + START_SECONDS_MAX
    own = _file_of(process.pid)
    while not own.exists():
        if process.poll() is not None:
            say(f"The broker did not start; {log} ends with:")
            for line in log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]:
                say(f"  {line}")
            return 1
        if time.monotonic() > end:
            say(f"The broker (process {process.pid}) does not answer yet; see {log}.")
            return 1
        time.sleep(POLL_SECONDS)
    return 0


def refuse_taken_port(host: str, port: int) -> None:
    """BadInput when somebody listens there already."""
    if port and port_is_taken(host, port):
        raise BadInput(
            f"Port {port} of {host} is taken: something, maybe another broker, listens there. "
            f"Stop it, or choose another port with --port."
        )


def port_is_taken(host: str, port: int) -> bool:
    """Whether somebody listens there already."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def run_directory() -> Path:
    """Where brokers announce themselves."""
    chosen = os.environ.get(RUN_DIR_VARIABLE)
    if chosen:
        return Path(chosen)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "tidelog" if runtime else Path(tempfile.gettempdir()) / f"tidelog-{os.getuid()}"


def _file_of(pid: int) -> Path:
    return run_directory() / f"{pid}.json"


def _node_id(properties: Mapping[str, str]) -> int | None:
    text = properties.get("node.id", properties.get("broker.id", ""))
    return int(text) if text.strip().isdigit() else None


def _began(pid: int) -> str:
    """When a process began, in the system's own words; empty when there is none, or one that has ended already."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return ""
        done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return done.stdout.strip()
    except ProcessLookupError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
