"""A pipeline whose driver is killed, whose workers are killed, and whose broker is killed: each record comes out once.

The pipeline is a process of its own, as `tidelog pipeline run` starts it, so that it can be killed as a machine kills.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.server import ServerProcess, StartBroker
from tidelog.client.admin import Admin, accepted
from tidelog.client.arrow_read import read_partition
from tidelog.client.blocking.producer import Producer
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.client.errors import ClientError
from tidelog.client.transactions import Transactions
from tidelog.model.ids import TopicName

RECORDS = 20_000
PARTITIONS = 2
KILLS = 2
SECONDS_MAX = 250

PIPELINE = """
[sources.input]
topic = "input"
options = { maxOffsetsPerTrigger = "1500" }

[transform]
sql = "SELECT key, value FROM input"

[sink]
topic = "output"
options = { exactlyOnce = "true" }
"""


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> ServerProcess:
    return start_broker({"transaction.two.phase.commit.enable": "true", "flush.messages": "1"})


def start(folder: Path, servers: str, *options: str) -> subprocess.Popen[bytes]:
    with (folder / "pipeline.log").open("ab") as log:
        command = [sys.executable, "-m", "tidelog", "pipeline", "run", str(folder / "copy.toml"), "-b", servers]
        return subprocess.Popen(
            [*command, "--folder", str(folder / "state"), *options], stdout=log, stderr=log, start_new_session=True
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """The whole of it at once: Python, Java, and Spark's workers."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Spark's Python workers: where tasks run."""
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--sid", str(process.pid)], capture_output=True, text=True)
    rows = [line.split(maxsplit=1) for line in listed.stdout.splitlines()]
    return [int(pid) for pid, command in rows if "pyspark.daemon" in command]


def committed(servers: str) -> list[int]:
    """What a reader of committed records sees."""
    found: list[int] = []
    with Cluster(servers) as cluster:
        for partition in range(PARTITIONS):
            for batch in read_partition(cluster, "output", partition, 0, read_committed=True, columns=["value"]):
                found += [int(value) for value in batch.column("value").to_pylist()]
    return sorted(found)


def wait_for_more(servers: str, than: int, process: subprocess.Popen[bytes], end: float) -> int:
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(ClientError):
            count = len(committed(servers))
            if count > than:
                return count
        time.sleep(0.2)
    return than


@pytest.mark.req("R1")
@pytest.mark.timeout(SECONDS_MAX + 200)
def test_each_record_comes_out_once_whoever_is_killed(broker: ServerProcess, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    (tmp_path / "copy.toml").write_text(PIPELINE)
    with Cluster(servers) as cluster:
        new = [NewTopic(TopicName(name), PARTITIONS) for name in ("input", "output")]
        for answer in Admin(cluster).create_topics(new).values():
            accepted(answer)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(RECORDS):
            producer.send("input", b"%d" % number, b"%d" % (number % 97))
    end = time.monotonic() + SECONDS_MAX
    count = 0

    for attempt in range(KILLS):
        process = start(tmp_path, servers)
        count = wait_for_more(servers, count, process, end)
        for worker in workers_of(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        count = wait_for_more(servers, count, process, end)
        if attempt == 0:
            broker.kill()
            broker.start()
            count = wait_for_more(servers, count, process, end)
        kill(process)
    assert 0 < count < RECORDS, (tmp_path / "pipeline.log").read_text()
    last = start(tmp_path, servers, "--once")
    assert last.wait(SECONDS_MAX) == 0, (tmp_path / "pipeline.log").read_text()

    assert committed(servers) == list(range(RECORDS))
    with Cluster(servers) as cluster:
        assert Transactions(cluster).list_transactions(states=["Ongoing"]) == []
