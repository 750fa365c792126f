"""What is known of the pipelines of a machine: written by their processes, read by others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidelog.cli.pipeline import pipeline
from tidelog.spark.pipeline.registry import PipelineState, Registry


def state(name: str, pid: int, status: str = "running") -> PipelineState:
    now = time.time()
    return PipelineState(
        name, f"{name}.toml", pid, now, now, status, batch_id=4, rows=1200, rows_per_second=80.0, lag=7
    )


def test_a_pipeline_whose_process_is_gone_has_died(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    registry.write(state("alive", os.getpid()))
    registry.write(state("gone", ended.pid))
    registry.write(state("never began", ended.pid, "starting"))
    registry.write(state("through", ended.pid, "finished"))

    assert {each.name: each.status for each in registry.all()} == {
        "alive": "running",
        "gone": "died",
        "never began": "died",
        "through": "finished",
    }


def test_a_pipeline_is_stopped_by_a_signal_to_its_process(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    registry.write(state("sleeper", process.pid))

    done = CliRunner().invoke(pipeline, ["stop", "sleeper", "--folder", str(tmp_path)])

    assert done.exit_code == 0
    assert process.wait(10) != 0
    found = registry.read("sleeper")
    assert found is not None and found.status == "died"


def test_list_and_status_tell_rows_and_lag(tmp_path: Path) -> None:
    Registry(tmp_path).write(state("orders", os.getpid()))

    listed = CliRunner().invoke(pipeline, ["list", "--folder", str(tmp_path), "--format", "json"])
    told = CliRunner().invoke(pipeline, ["status", "orders", "--folder", str(tmp_path)])

    assert [(each["name"], each["lag"]) for each in json.loads(listed.stdout)] == [("orders", 7)]
    assert "orders: running  batch 4  rows 1,200 (80/s)  lag 7" in told.stdout


def test_an_unknown_pipeline_and_a_wrong_file_are_said(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[sources.a]\n")

    unknown = CliRunner().invoke(pipeline, ["status", "nobody", "--folder", str(tmp_path)])
    invalid = CliRunner().invoke(pipeline, ["run", str(wrong), "--folder", str(tmp_path)])

    assert "There is no pipeline 'nobody'" in str(unknown.exception)
    with pytest.raises(Exception, match="needs one transform"):
        raise invalid.exception or AssertionError("it ran")
