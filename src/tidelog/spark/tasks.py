"""The tasks of both readers: a range of a partition that the driver planned, and its rows, which a task reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from tidelog.client.cluster import Cluster
from tidelog.spark.between_tasks import settle
from tidelog.spark.options import ReadOptions
from tidelog.spark.planning import Range
from tidelog.spark.rows import RowsForSpark


class RangePartition(InputPartition):
    """A task of Spark: one range; None when there is nothing to read."""

    def __init__(self, wanted: Range | None) -> None:
        super().__init__(wanted)
        self.wanted = wanted


def tasks_for(options: ReadOptions, cluster: Cluster, planned: Sequence[Range]) -> list[InputPartition]:
    """A task for each range, with the place of its files where those are read."""
    if options.via_segments:
        from tidelog.spark.segments import located

        planned = located(options, cluster, planned)
    return [RangePartition(one) for one in planned]


def read_task(options: ReadOptions, rows: RowsForSpark, task: InputPartition) -> Iterator[Any]:
    """The rows of a task as Arrow batches."""
    assert isinstance(task, RangePartition)
    if task.wanted is None:
        return
    # A task reads; the driver, which plans, never does.
    from tidelog.spark.segments import read_any_way

    found = read_any_way(options, task.wanted, rows.columns)
    yield from rows.converted(found, task.wanted.partition)
    settle()
