"""How far a micro-batch goes where Spark asks a Python source with a limit, as it does since 4.2."""

from __future__ import annotations

import time
from collections.abc import Mapping

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidelog.model.ids import Offset
from tidelog.spark.options import ReadOptions
from tidelog.spark.planning import limited, waiting_offsets
from tidelog.spark.positions import PositionTree, positions_of, tree_of
from tidelog.spark.stream_reader import StreamReader


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Takes as much as `maxOffsetsPerTrigger` allows, and waits for as much as `minOffsetsPerTrigger` wants."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._waited_since: float | None = None

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
