"""`spark.readStream.format("tidelog")`: how far each micro-batch goes, with offsets that Spark keeps in its checkpoint.

The driver's half lives in one process for as long as the query runs and keeps its connection. Partitions that are added
are read from their beginning. Progress is written to a consumer group if one is named, so that lag tools see the query.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidelog.client.errors import ClientError, Rejected
from tidelog.model.ids import Offset
from tidelog.spark.batch_reader import RangePartition
from tidelog.spark.between_tasks import settle
from tidelog.spark.errors import DataLoss
from tidelog.spark.log_ends import LogEnds
from tidelog.spark.options import ReadOptions
from tidelog.spark.planning import limited, ranges, waiting_offsets
from tidelog.spark.positions import Positions, PositionTree, positions_of, tree_of
from tidelog.spark.rows import RowsForSpark


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as they grow."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._rows = RowsForSpark(options.typed, schema)
        # Opened by the first question in the driver: the reader itself travels to the executors.
        self._ends: LogEnds | None = None
        self._target: Positions | None = None
        self._waited_since: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ends": None}

    def initialOffset(self) -> PositionTree:
        ends = self._asking()
        return tree_of(ends.resolve(self._options.starting, ends.partitions(), "startingOffsets"))

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.offsets_per_trigger_max is None:
            return ReadAllAvailable()
        return ReadMaxRows(self._options.offsets_per_trigger_max)

    def latestOffset(self, start: Mapping[str, Mapping[str, int]], limit: ReadLimit) -> PositionTree:
        begin = positions_of(start)
        end = self._available(begin)
        if self._should_wait(waiting_offsets(begin, end)):
            return tree_of(begin)
        if isinstance(limit, ReadMaxRows):
            new = {partition: Offset(0) for partition in end.keys() - begin.keys()}
            end = limited(self._from_earliest(begin | new, set(new)), end, limit.max_rows)
        return tree_of(end)

    def reportLatestOffset(self) -> PositionTree | None:
        ends = self._asking()
        return tree_of(ends.latest(ends.partitions()))

    def prepareForTriggerAvailableNow(self) -> None:
        ends = self._asking()
        self._target = ends.latest(ends.partitions())

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
        if self._options.via_segments:
            from tidelog.spark.segments import located

            found = located(self._options, self._asking().cluster, found)
        return [RangePartition(one) for one in found]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RangePartition)
        if partition.wanted is None:
            return
        # A task of Spark's reads; the driver, which plans, never does.
        from tidelog.spark.segments import read_any_way

        found = read_any_way(self._options, partition.wanted, self._rows.columns)
        yield from self._rows.converted(found, partition.wanted.partition)
        settle()

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
        for partition, offset in begin.items():
            known = latest.get(partition)
            if known is None and self._target is None:
                self._lost(f"Partition {partition} does not exist any more; the query was at offset {offset}.")
            elif known is not None and known < offset:
                said = f"{partition} ends at offset {known}, and the query was at offset {offset} already"
                self._lost(f"{said}: was the topic deleted and made again?")
        return {
            partition: Offset(max(offset, begin.get(partition, Offset(0)))) for partition, offset in latest.items()
        } | {partition: offset for partition, offset in begin.items() if partition not in latest}

    def _lost(self, said: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{said} Set failOnDataLoss=false to go on.")

    def _from_earliest(self, begin: Positions, new: set[Any]) -> Positions:
        """Where new partitions begin, which need not be 0."""
        return begin | self._asking().earliest(sorted(new)) if new else begin

    def _should_wait(self, waiting: int) -> bool:
        """Whether a trigger finds too little (`minOffsetsPerTrigger`) and has not waited too long for more."""
        least = self._options.offsets_per_trigger_min
        if least is None or waiting >= least or self._target is not None or not waiting:
            self._waited_since = None
            return False
        now = time.monotonic()
        if self._waited_since is None:
            self._waited_since = now
        if now - self._waited_since >= self._options.trigger_delay_max_ms / 1000:
            self._waited_since = None
            return False
        return True
