"""The commands as people type them: those of the course notes in their own spelling, and the platform's own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from harness.apache_kafka import PROJECT
from harness.server import HOST, answers, free_port

SECONDS_MAX: Final = 60
PRODUCED: Final = re.compile(
    r"50000 records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency, "
    r"\d+\.\d\d ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)
SEED_COMMANDS: Final = [
    tuple(part.strip() for part in line.split("\t"))
    for line in (PROJECT / "tests/data/seed_commands.txt").read_text().splitlines()
    if not line.startswith("#")
]
RUNNING: Final = [command for status, command in SEED_COMMANDS if status == "runs"]
SERVER_STARTS: Final = [command for command in RUNNING if "kafka-server-start" in command]
PERF: Final = [command for command in RUNNING if "perf-test" in command]
OTHERS: Final = [command for command in RUNNING if command not in (*SERVER_STARTS, *PERF)]


@dataclass(frozen=True, slots=True)
class Home:
    """A folder like the project's own, with bin/ and config/, but a broker on a port of its own."""

    folder: Path
    port: int

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def popen(self, command: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start what a shell would, typed in this folder."""
        return subprocess.Popen(
            ["sh", "-c", "exec " + command.replace("{bootstrap}", self.bootstrap)],
            cwd=self.folder,
            env={**os.environ, "TIDELOG_RUN_DIR": str(self.folder / "run")},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, command: str, stdin: str = "") -> tuple[int, str, str]:
        """Run a command to its end: exit code, standard output, standard error."""
        process = self.popen(command, subprocess.PIPE)
        out, error = process.communicate(stdin, SECONDS_MAX)
        return process.returncode, out, error


def make_home(folder: Path) -> Home:
    port = free_port()
    (folder / "bin").symlink_to(PROJECT / "bin")
    (folder / "config").mkdir()
    shipped = (PROJECT / "config/server.properties").read_text()
    assert ":9092\n" in shipped
    (folder / "config/server.properties").write_text(shipped.replace(":9092\n", f":{port}\n"))
    return Home(folder, port)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A broker in the background, started and stopped with the commands themselves."""
    made = make_home(tmp_path_factory.mktemp("home"))
    code, _, error = made.run("./bin/kafka-server-start -daemon config/server.properties")
    assert code == 0, error
    yield made
    assert made.run("bin/kafka-server-stop.sh")[0] == 0


def test_the_notes_have_a_state_for_every_command() -> None:
    assert len(SEED_COMMANDS) == 14
    assert {status for status, _ in SEED_COMMANDS} == {
        "runs",
        "comes with ZooKeeper mode",
        "comes with replication",
    }


@pytest.mark.req("M1", "M2", "B2")
@pytest.mark.parametrize("command", SERVER_STARTS)
def test_a_server_starts_and_stops_as_the_notes_write_it(command: str, tmp_path: Path) -> None:
    home = make_home(tmp_path)
    if "-daemon" in command:
        assert home.run(command) == (0, "", "")
        assert answers(home.port)
        assert home.run("bin/kafka-server-stop.sh") == (0, "", "")
        assert home.run("bin/kafka-server-stop.sh") == (1, "No kafka server to stop\n", "")
    else:
        process = home.popen(command)
        try:
            wait_until_it_answers(home.port, process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0
    assert not answers(home.port)
    assert (tmp_path / "tidelog-data/meta.properties").exists()


@pytest.mark.req("M4", "M5", "M6", "M8", "M9", "A3", "A5")
@pytest.mark.parametrize("command", OTHERS)
def test_a_command_of_the_notes_runs_as_it_is_written(command: str, home: Home) -> None:
    prepare = "--delete --if-exists" if "--create" in command else "--create --if-not-exists"
    assert home.run(f"bin/kafka-topics.sh {prepare} --bootstrap-server {{bootstrap}} --topic test")[0] == 0
    if "consumer" in command:
        home.run("bin/kafka-console-producer.sh --bootstrap-server {bootstrap} --topic test", "first\nsecond\n")
        process = home.popen(command)
        assert process.stdout is not None
        lines = {process.stdout.readline() for _ in range(2)}
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0
        assert lines <= {"first\n", "second\n", "typed by hand\n"}
        assert error.startswith("Processed a total of ")
        return
    before = end_offset(home, "test") if "producer" in command else 0
    code, out, error = home.run(command, "typed by hand\n" if "producer" in command else "")
    assert code == 0, error
    if "--create" in command:
        assert out == "Created topic test.\n"
    elif "--list" in command:
        assert "test" in out.split("\n")
    elif "-alter" in command:
        described = home.run("bin/kafka-topics.sh --describe --topic test --bootstrap-server {bootstrap}")[1]
        assert "PartitionCount: 2\t" in described
    elif "producer" in command:
        assert end_offset(home, "test") == before + 1
    old = [word for word in ("--zookeeper", "--broker-list", "-alter ", "--partition ") if word in command]
    warnings = error.splitlines()
    assert len(warnings) == bool(old)
    assert all(f"{word.strip()} is -" in warnings[0] for word in old)


@pytest.mark.req("M10", "M11", "O1", "O2", "O3", "O5", "O8")
def test_the_benchmark_of_the_notes_runs_as_it_is_written(home: Home) -> None:
    producing, consuming = (command.replace("5000000", "50000") for command in PERF)

    code, out, error = home.run(producing)
    assert (code, error) == (0, "")
    assert PRODUCED.fullmatch(out.splitlines()[-1]), out
    assert end_offset(home, "benchmark") == 50_000

    code, out, error = home.run(consuming)
    assert code == 0, error
    assert "benchmark--fetch-size" in error  # The notes lost a space, and it is said how they were read.
    numbers = out.splitlines()[-1].split(", ")
    assert len(numbers) == len(out.splitlines()[-2].split(", ")) == 10
    assert numbers[4] == "50000"
    assert float(numbers[2]) == pytest.approx(50_000 * 1000 / 1024**2, abs=0.001)


@pytest.mark.req("M2")
def test_a_server_that_cannot_start_in_the_background_says_why(home: Home) -> None:
    code, _, error = home.run("bin/kafka-server-start.sh -daemon config/server.properties --override log.dirs=other")
    assert code == 1
    assert "did not start" in error
    assert "in use" in error


def test_servers_are_stopped_by_their_node_id(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    other = f"--override listeners=PLAINTEXT://{HOST}:{free_port()} --override node.id=2 --override log.dirs=second"
    assert home.run("bin/kafka-server-start.sh -daemon config/server.properties")[0] == 0
    assert home.run(f"bin/kafka-server-start.sh -daemon config/server.properties {other}")[0] == 0
    assert home.run("bin/kafka-server-stop.sh --node-id 7")[0] == 1
    assert home.run("bin/kafka-server-stop.sh --node-id 2")[0] == 0
    assert answers(home.port)
    assert home.run("bin/tidelog server-stop")[0] == 0
    assert not answers(home.port)


def test_the_demo_shows_records_flowing_and_ends_cleanly(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    ports = f"--port {home.port} --metrics-port {free_port()}"
    code, out, error = home.run(f"bin/tidelog demo --no-spark --seconds 2 {ports}")
    assert code == 0, error
    assert f"Tidelog listens on {home.bootstrap}" in out
    assert "last {" in out
    words = error.split()
    assert words[0] == "Stopped."
    assert int(words[1]) == int(words[4]) > 0
    assert not answers(home.port)


def test_ctrl_c_ends_the_demo_and_its_broker(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    process = home.popen(f"bin/tidelog demo --no-spark --port {home.port} --metrics-port {free_port()}")
    wait_until_it_answers(home.port, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS_MAX)
    assert not answers(home.port)


def test_the_demo_refuses_a_port_that_is_taken(home: Home) -> None:
    code, out, error = home.run(f"bin/tidelog demo --port {home.port}")
    assert (code, out) == (1, "")
    assert f"Port {home.port} of 127.0.0.1 is taken" in error


def test_up_shows_where_to_connect_and_stops_with_ctrl_c(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    process = home.popen(f"bin/tidelog up --port {home.port} --data here -c num.partitions=3")
    wait_until_it_answers(home.port, process)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out) == (0, "")
    assert f"connect to: {home.bootstrap}" in error
    assert str(tmp_path / "here") in error
    assert error.endswith("Stopped.\n")


def wait_until_it_answers(port: int, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not answers(port):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)


def end_offset(home: Home, topic: str) -> int:
    out = home.run(f"bin/kafka-get-offsets.sh --bootstrap-server {{bootstrap}} --topic {topic}")[1]
    return sum(int(line.rpartition(":")[2]) for line in out.splitlines())
