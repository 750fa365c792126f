"""`spark.read.format("tidelog")`: ranges are planned in the driver, each is read by a task as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tidelog.model.ids import Offset
from tidelog.spark.errors import DataLoss
from tidelog.spark.filters import Narrowing, narrow
from tidelog.spark.log_ends import LogEnds
from tidelog.spark.options import ReadOptions, Times
from tidelog.spark.planning import Range, ranges
from tidelog.spark.positions import Positions
from tidelog.spark.rows import RowsForSpark
from tidelog.spark.tasks import RangePartition, read_task, tasks_for


class BatchReader(DataSourceReader):
    """Reads what the topics hold between two positions."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._rows = RowsForSpark(options.typed, schema)
        self._narrowing = Narrowing()

    def partitions(self) -> list[InputPartition]:
        ends = LogEnds(self._options)
        try:
            tasks = tasks_for(self._options, ends.cluster, self._plan(ends))
        finally:
            ends.close()
        # Spark would make a task of its own of an empty list.
        return tasks or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(self._options, self._rows, partition)

    def _plan(self, ends: LogEnds) -> list[Range]:
        partitions = ends.partitions()
        start = ends.resolve(self._options.starting, partitions, "startingOffsets")
        end = ends.resolve(self._options.ending, partitions, "endingOffsets")
        self._check_bounds(ends, start, end)
        if self._narrowing.timestamp_min_ms is not None:
            times = Times(self._narrowing.timestamp_min_ms, {}, or_latest=True)
            first = ends.resolve(times, partitions, "timestamp")
            start = {one: Offset(max(offset, first[one])) for one, offset in start.items()}
        whole = self._narrowing.apply(ranges(start, end))
        return ranges(
            {one.partition: one.start for one in whole},
            {one.partition: one.end for one in whole},
            partitions_min=self._options.partitions_min,
            records_max=self._options.records_per_partition_max,
        )

    def _check_bounds(self, ends: LogEnds, start: Positions, end: Positions) -> None:
        """A job that names offsets is told at once, and not by its tasks, if the log does not have them."""
        first = ends.earliest(start)
        for partition, offset in start.items():
            if offset < first[partition]:
                if self._options.fail_on_data_loss:
                    message = f"{partition} begins at offset {first[partition]}; offset {offset} is gone."
                    raise DataLoss(f"{message} Set failOnDataLoss=false to read what there is.")
                start[partition] = min(first[partition], end[partition])
        last = ends.latest(end)
        for partition, offset in end.items():
            if offset > last[partition]:
                if self._options.fail_on_data_loss:
                    message = f"{partition} ends at offset {last[partition]}; there is no offset {offset - 1}."
                    raise DataLoss(f"{message} Set failOnDataLoss=false to read what there is.")
                end[partition] = last[partition]


class FilteringBatchReader(BatchReader):
    """The same with filters pushed down, for sessions that have allowed it: Spark refuses it in others."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        narrowed = narrow(filters)
        self._narrowing = narrowed.narrowing
        return narrowed.rest
