"""Spark's own daemons from what pip installs: which Java and Python they get, started, waited for, stopped.

`standalone.py` and `connect_server.py` say which; nothing here knows what a daemon does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyspark

from tidelog.spark.java import java_home

START_SECONDS_MAX: Final = 240.0
STOP_SECONDS_MAX: Final = 20.0
POLL_SECONDS: Final = 0.1
LOG_LINES_TOLD: Final = 20
DAEMON_MEMORY: Final = "256m"
# A daemon that mostly waits needs neither a second compiler nor a collector of many threads.
SMALL_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LOOPBACK: Final = "127.0.0.1"


class SparkDidNotStart(RuntimeError):
    """A daemon of Spark ended, or said nothing, before it was ready."""


class SparkProcess:
    """One daemon of Spark, in a session of its own: Ctrl-C in a terminal is for whoever started it."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = folder / f"{name}.log"
        self._read_from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                list(command),
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process, and the session that holds everything it starts."""
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first place in its log, since this start, that matches."""
        end = time.monotonic() + START_SECONDS_MAX
        while True:
            with self.log.open("rb") as log:
                log.seek(self._read_from)
                text = log.read().decode(errors="replace")
            found = re.search(pattern, text)
            if found is not None:
                return found
            if not self.is_alive() or time.monotonic() > end:
                tail = "\n".join(text.splitlines()[-LOG_LINES_TOLD:])
                raise SparkDidNotStart(f"Spark's {self.name} did not start:\n{tail}")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """As a service manager stops it."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """kill -9 of the daemon alone; what it started notices by itself."""
        self._process.kill()
        self._process.wait()


def spark_command(name: str) -> str:
    """A script of PySpark's folder bin."""
    return str(Path(pyspark.__file__).parent / "bin" / name)


def spark_environment(host: str, **more: str) -> dict[str, str]:
    """What Spark's scripts look at: our Java, our Python, our Spark, whatever the shell says of others."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": host,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": SMALL_JAVA,
        **more,
    }
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.pop("JAVA_HOME", None)
    home = java_home()
    if home is not None:
        environment["JAVA_HOME"] = home
    return environment
