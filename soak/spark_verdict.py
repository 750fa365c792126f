"""What came out of a Spark pipeline under fire, judged without Spark: how often each number is in topic or lake.

A lake is read as a reader of the table has to: the files that the sink's own log names, which killed tasks' files are
not in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tidelog.client.arrow_read import read_partition
from tidelog.client.cluster import Cluster

SINK_LOG: Final = "_spark_metadata"
LOG_VERSION: Final = "v1"
NUMBER: Final = "number"


class BadSinkLog(Exception):
    """A sink log that does not say which files are committed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the numbers from 0 on came out."""

    missing: int
    repeated: int
    # Of a lake: files that are part of the table, and files that killed tasks left beside it.
    files: int = 0
    files_left: int = 0


def judge_topic(bootstrap_servers: str, topic: str, partitions: int, records: int) -> Verdict:
    """What a consumer sees that reads only what is committed."""
    seen = np.zeros(records, dtype=np.int64)
    with Cluster(bootstrap_servers) as cluster:
        for partition in range(partitions):
            output = read_partition(cluster, topic, partition, 0, read_committed=True, columns=["value"])
            for batch in output:
                _count(seen, batch.column("value").cast(pa.string()).cast(pa.int64()))
    return _verdict(seen)


def judge_lake(lake: Path, records: int) -> Verdict:
    """What a reader of the table sees."""
    seen = np.zeros(records, dtype=np.int64)
    committed = committed_files(lake)
    for path in committed:
        _count(seen, pq.read_table(path, columns=[NUMBER], partitioning=None).column(NUMBER))
    found = {path.resolve() for path in lake.rglob("*.parquet")}
    return _verdict(seen, len(committed), len(found - {path.resolve() for path in committed}))


def committed_files(lake: Path) -> list[Path]:
    """The files that the log names: those of its newest summary, and of every batch after it. BadSinkLog for a gap."""
    batches = {
        int(found[1]): path
        for path in (lake / SINK_LOG).iterdir()
        if (found := re.fullmatch(r"(\d+)(\.compact)?", path.name)) is not None
    }
    if not batches:
        raise BadSinkLog(f"{lake / SINK_LOG} is empty.")
    summaries = [batch for batch, path in batches.items() if path.suffix]
    first = max(summaries, default=0)
    wanted = range(first, max(batches) + 1)
    gap = next((batch for batch in wanted if batch not in batches), None)
    if gap is not None:
        raise BadSinkLog(f"Batch {gap} is not in {lake / SINK_LOG}, though later ones are.")
    return [path for batch in wanted for path in _named(batches[batch].read_text().splitlines(), batches[batch])]


def _named(lines: list[str], log: Path) -> Iterable[Path]:
    if not lines or lines[0] != LOG_VERSION:
        raise BadSinkLog(f"{log} does not begin with {LOG_VERSION}.")
    for line in lines[1:]:
        entry: dict[str, Any] = json.loads(line)
        if entry["action"] == "add":
            yield Path(unquote(urlparse(entry["path"]).path))


def _count(seen: Any, numbers: Any) -> None:
    np.add.at(seen, numbers.to_numpy(), 1)


def _verdict(seen: Any, files: int = 0, files_left: int = 0) -> Verdict:
    return Verdict(int((seen == 0).sum()), int((seen - 1).clip(min=0).sum()), files, files_left)
