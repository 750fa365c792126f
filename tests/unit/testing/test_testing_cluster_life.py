"""Brokers of a test's cluster live and die as they are told, and never outlive the program that started them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tidelog
from harness.waiting import wait_until

PROGRAM = """
import signal, sys, tidelog
cluster = tidelog.Cluster(1).start()
if sys.argv[1] == "paused":
    cluster.pause(1)
print(cluster.pid(1), cluster.data, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("state", ["running", "paused"])
def test_a_broker_ends_when_its_program_is_killed(state: str) -> None:
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, state], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    pid = int(program.stdout.readline().split()[0])
    assert _runs(pid)

    program.kill()
    program.wait()

    wait_until(lambda: not _runs(pid), 30)


def test_a_killed_broker_comes_back_with_its_data(tmp_path: Path) -> None:
    with tidelog.Cluster(1, data=tmp_path) as cluster:
        first, address = cluster.pid(1), cluster.address(1)
        cluster.kill(1)
        assert cluster.alive == []
        cluster.restart(1)

        assert cluster.alive == [1]
        assert cluster.pid(1) != first
        assert cluster.address(1) == address == cluster.bootstrap_servers
        assert cluster.controller == 1
    assert (tmp_path / "broker-1" / "meta.properties").exists()
    assert "event=stopped" in (tmp_path / "broker-1.log").read_text()
    assert not _runs(first)


def test_a_paused_broker_is_there_but_does_nothing_until_it_is_resumed() -> None:
    with tidelog.Cluster(1) as cluster:
        data = cluster.data
        cluster.pause(1)
        assert cluster.alive == []
        wait_until(lambda: _state(cluster.pid(1)) == "T")
        cluster.resume(1)
        cluster.wait_until_ready(10)
    assert not data.exists()


def test_what_cannot_be_done_is_said() -> None:
    cluster = tidelog.Cluster(1, cuttable=False)
    with pytest.raises(RuntimeError, match="not running"):
        cluster.kill(1)
    with cluster:
        with pytest.raises(ValueError, match="no broker 4"):
            cluster.kill(4)
        with pytest.raises(RuntimeError, match="cuttable"):
            cluster.cut(1, 1)
        with pytest.raises(RuntimeError, match="cut_clients"):
            cluster.cut("clients", 1)
    with pytest.raises(ValueError, match="at least one"):
        tidelog.Cluster(0)


def test_a_broker_that_cannot_start_says_why() -> None:
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"(?s)broker 1 ended with 1.*num\.partitions"):
        tidelog.Cluster(1, config={"num.partitions": -3}).start()
    assert time.monotonic() - began < 30


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Ended, but nobody has asked how: some containers have an init that never does.
    return _state(pid) != "Z"


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def test_signals_for_the_terminal_do_not_reach_brokers() -> None:
    with tidelog.Cluster(1) as cluster:
        assert os.getpgid(cluster.pid(1)) != os.getpgrp()
        assert os.getsid(cluster.pid(1)) == os.getsid(0)
