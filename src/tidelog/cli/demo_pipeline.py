"""The pipeline beside `tidelog demo`: Spark aggregates the demo's records, exactly once, into a second topic.

It runs as `tidelog pipeline run` in a process of its own, so that the demo neither waits for Spark nor fails with it:
where there is no Spark or no Java it says so and goes on without. The environment variable TIDELOG_SPARK_STAMP names a
file that appears when Spark, which `make run` fetches meanwhile, is installed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from tidelog.model.ids import TopicName

if TYPE_CHECKING:
    from tidelog.client.core.record import ConsumerRecord

RESULT_TOPIC: Final = TopicName("demo-by-station")
STAMP_VARIABLE: Final = "TIDELOG_SPARK_STAMP"
INSTALL_SECONDS_MAX: Final = 900.0
STOP_SECONDS_MAX: Final = 4.0
SHOWN_RESULTS: Final = 7
POLL_S: Final = 0.5

DEFINITION: Final = """
name = "demo-by-station"
trigger = "1 second"

[sources.readings]
topic = "demo"
starting = "latest"
schema = "station string, level_m double, at double"
watermark = "timestamp, 1 second"

[transform]
sql = \"\"\"
SELECT station, date_format(window.end, 'HH:mm:ss') AS until, count(*) AS readings,
       round(min(level_m), 2) AS lowest_m, round(max(level_m), 2) AS highest_m
FROM readings GROUP BY station, window(timestamp, '5 seconds')
\"\"\"

[sink]
topic = "demo-by-station"
key = "station"
options = { exactlyOnce = "true" }
"""


class DemoPipeline:
    """The pipeline's process, what it says, and what it writes."""

    def __init__(self, address: str, data: str) -> None:
        self.status = "waiting for Spark"
        self.results = 0
        self.latest: deque[ConsumerRecord] = deque(maxlen=SHOWN_RESULTS)
        self._address = address
        self._folder = Path(data) / "pipelines"
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._runner = threading.Thread(target=self._run, name="demo-pipeline", daemon=True)
        self._reader = threading.Thread(target=self._read, name="demo-pipeline-results", daemon=True)

    def start(self) -> None:
        self._runner.start()

    def stop(self) -> None:
        """Stop it before its broker goes."""
        self._stopping.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                # Spark may still be starting. What a killed batch has prepared, nobody sees.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for thread in (self._runner, self._reader):
            if thread.is_alive():
                thread.join(STOP_SECONDS_MAX)

    def _run(self) -> None:
        from tidelog.client.errors import ClientError

        if not self._spark_is_there():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "demo-by-station.toml"
        file.write_text(DEFINITION)
        # From where it was when the demo last ended, too much would have to be caught up: each demo begins anew.
        checkpoint = self._folder / f"{int(time.time())}"
        command = [sys.executable, "-m", "tidelog", "pipeline", "run", str(file), "-b", self._address]
        try:
            self._create_topic()
        except ClientError as error:
            self.status = f"off: {error}"
            return
        self.status = "Spark starts"
        self._process = subprocess.Popen(
            [*command, "--folder", str(checkpoint)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._reader.start()
        self._follow(self._process.stdout)
        if not self._stopping.is_set():
            self.status = f"ended: {self.status}"

    def _spark_is_there(self) -> bool:
        stamp = os.environ.get(STAMP_VARIABLE)
        end = time.monotonic() + (INSTALL_SECONDS_MAX if stamp else 0.0)
        while True:
            importlib.invalidate_caches()
            if (stamp is None or Path(stamp).exists()) and find_spec("pyspark") is not None:
                return True
            if time.monotonic() >= end:
                self.status = "off: Spark is not installed (pip install 'tidelog[spark]')"
                return False
            self.status = "Spark is being installed"
            if self._stopping.wait(POLL_S):
                return False

    def _create_topic(self) -> None:
        from tidelog.client.admin import Admin
        from tidelog.client.cluster import Cluster
        from tidelog.client.core.described import NewTopic

        with Cluster(self._address) as cluster:
            # It may be there already, from the last time.
            Admin(cluster).create_topics([NewTopic(RESULT_TOPIC, 1)])

    def _follow(self, lines: IO[str]) -> None:
        for line in lines:
            _, _, told = line.strip().partition(": ")
            if told:
                self.status = told

    def _read(self) -> None:
        """Only what is committed: that is what exactly once is about."""
        from tidelog.client.blocking.consumer import Consumer
        from tidelog.client.errors import ClientError

        with Consumer(bootstrap_servers=self._address, isolation_level="read_committed") as consumer:
            consumer.assign(consumer.partitions_for(RESULT_TOPIC))
            consumer.seek_to_end()
            while not self._stopping.is_set():
                try:
                    records = consumer.poll(POLL_S)
                except ClientError as error:
                    self.status = f"results cannot be read: {error}"
                    return
                self.latest.extend(records)
                self.results += len(records)
