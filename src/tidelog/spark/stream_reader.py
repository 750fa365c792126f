"""`spark.readStream.format("tidelog")`: the records between two positions, which Spark keeps in its checkpoint.

The driver's half lives in one process for as long as the query runs and keeps its connection. Partitions that are added
are read from their beginning. Progress is written to a consumer group if one is named, so that lag tools see the query.
How far a micro-batch goes is asked differently by each Spark: `stream_limits.py` and `stream_unlimited.py` answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.client.errors import ClientError, Rejected
from tidelog.model.ids import Offset
from tidelog.spark.errors import DataLoss
from tidelog.spark.log_ends import LogEnds
from tidelog.spark.options import ReadOptions
from tidelog.spark.planning import ranges
from tidelog.spark.positions import Positions, PositionTree, positions_of, tree_of
from tidelog.spark.rows import RowsForSpark
from tidelog.spark.tasks import read_task, tasks_for


class StreamReader(DataSourceStreamReader):
    """Reads topics as they grow; whoever inherits says how far."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._rows = RowsForSpark(options.typed, schema)
        # Opened by the first question in the driver: the reader itself travels to the executors.
        self._ends: LogEnds | None = None
        # Where a query ends that takes only what is there now.
        self._target: Positions | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ends": None}

    def initialOffset(self) -> PositionTree:
        ends = self._asking()
        return tree_of(ends.resolve(self._options.starting, ends.partitions(), "startingOffsets"))

    def partitions(
        self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]
    ) -> Sequence[InputPartition]:
        begin, until = positions_of(start), positions_of(end)
        new = until.keys() - begin.keys()
        if new:
            begin = self._from_earliest(begin | dict.fromkeys(new, Offset(0)), new)
        found = ranges(
            begin,
            until,
            partitions_min=self._options.partitions_min,
            records_max=self._options.records_per_partition_max,
        )
        return tasks_for(self._options, self._asking().cluster, found)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_task(self._options, self._rows, partition)

    def commit(self, end: Mapping[str, Mapping[str, int]]) -> None:
        """Spark has processed everything before `end`: tell the group. Spark itself goes on from its checkpoint."""
        if self._options.group_id is None:
            return
        from tidelog.client.core.groups import CommittedOffset
        from tidelog.client.groups import Groups

        offsets = {partition: CommittedOffset(offset) for partition, offset in positions_of(end).items()}
        try:
            answers = Groups(self._asking().cluster).alter_offsets(self._options.group_id, offsets)
        except ClientError as error:
            print(f"Progress could not be written to group '{self._options.group_id}': {error}")
            return
        for partition, answer in answers.items():
            if isinstance(answer, Rejected):
                print(f"Progress of {partition} could not be written to group '{self._options.group_id}': {answer}")

    def stop(self) -> None:
        if self._ends is not None:
            self._ends.close()
            self._ends = None

    def _asking(self) -> LogEnds:
        if self._ends is None:
            self._ends = LogEnds(self._options)
        return self._ends

    def _available(self, begin: Positions) -> Positions:
        """How far everything could be read now, never before where the query is."""
        ends = self._asking()
        if self._target is not None:
            latest = self._target
        else:
            latest = ends.latest(ends.partitions())
        self._check_that_nothing_is_lost(begin, latest)
        return {
            partition: Offset(max(offset, begin.get(partition, Offset(0)))) for partition, offset in latest.items()
        } | {partition: offset for partition, offset in begin.items() if partition not in latest}

    def _check_that_nothing_is_lost(self, begin: Positions, latest: Positions) -> None:
        for partition, offset in begin.items():
            known = latest.get(partition)
            if known is None and self._target is None:
                self._lost(f"Partition {partition} does not exist any more; the query was at offset {offset}.")
            elif known is not None and known < offset:
                said = f"{partition} ends at offset {known}, and the query was at offset {offset} already"
                self._lost(f"{said}: was the topic deleted and made again?")

    def _lost(self, said: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{said} Set failOnDataLoss=false to go on.")

    def _from_earliest(self, begin: Positions, new: set[Any]) -> Positions:
        """Where new partitions begin, which need not be 0."""
        return begin | self._asking().earliest(sorted(new)) if new else begin
