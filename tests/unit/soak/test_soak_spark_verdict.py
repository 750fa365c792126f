"""The verdict over a lake: what its sink's log names is the table, whatever else lies there."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from soak.spark_verdict import BadSinkLog, Verdict, committed_files, judge_lake


def file_of(lake: Path, name: str, *numbers: int) -> Path:
    path = lake / "day=2026-11-16" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"number": pa.array(numbers, pa.int64())}), path)
    return path


def log_of(lake: Path, batch: str, *files: Path) -> None:
    log = lake / "_spark_metadata" / batch
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("\n".join(["v1", *(json.dumps({"path": path.as_uri(), "action": "add"}) for path in files)]))


def test_each_number_once_is_nothing_missing_and_files_of_killed_tasks_do_not_count(tmp_path: Path) -> None:
    log_of(tmp_path, "0", file_of(tmp_path, "a b", 0, 1))
    log_of(tmp_path, "1", file_of(tmp_path, "c", 2))
    file_of(tmp_path, "killed", 2, 1)
    assert judge_lake(tmp_path, 3) == Verdict(0, 0, files=2, files_left=1)


def test_what_is_missing_or_came_twice_is_counted(tmp_path: Path) -> None:
    log_of(tmp_path, "0", file_of(tmp_path, "a", 0, 1, 1))
    log_of(tmp_path, "1", file_of(tmp_path, "b", 1))
    assert judge_lake(tmp_path, 4) == Verdict(missing=2, repeated=2, files=2)


def test_a_summary_stands_for_all_before_it(tmp_path: Path) -> None:
    files = [file_of(tmp_path, str(number), number) for number in range(4)]
    log_of(tmp_path, "1", files[0])
    log_of(tmp_path, "2.compact", *files[:3])
    log_of(tmp_path, "3", files[3])
    assert committed_files(tmp_path) == files


def test_a_log_with_a_gap_is_not_believed(tmp_path: Path) -> None:
    log_of(tmp_path, "0", file_of(tmp_path, "a", 0))
    log_of(tmp_path, "2", file_of(tmp_path, "b", 1))
    with pytest.raises(BadSinkLog, match="Batch 1"):
        committed_files(tmp_path)
