"""How far a micro-batch goes in Spark 4.1, which asks for all there is, and does not say where the query stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tidelog.spark.errors import InvalidOption
from tidelog.spark.options import ReadOptions
from tidelog.spark.positions import Positions, PositionTree, positions_of, tree_of
from tidelog.spark.stream_reader import StreamReader


class UnlimitedStreamReader(StreamReader):
    """Takes all there is. Where the query stands it learns from its batches."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        for name, value in (
            ("maxOffsetsPerTrigger", options.offsets_per_trigger_max),
            ("minOffsetsPerTrigger", options.offsets_per_trigger_min),
        ):
            if value is not None:
                raise InvalidOption(
                    f"Option {name} needs Spark 4.2: an older one asks sources of Python for all there is."
                )
        self._stands_at: Positions = {}

    def initialOffset(self) -> PositionTree:
        begin = super().initialOffset()
        self._stands_at = positions_of(begin)
        return begin

    def latestOffset(self) -> PositionTree:  # type: ignore[override]  # What it was before 4.2.
        return tree_of(self._available(self._stands_at))

    def partitions(
        self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]
    ) -> Sequence[InputPartition]:
        begin, until = positions_of(start), positions_of(end)
        self._check_that_nothing_is_lost(begin, until)
        self._stands_at = begin | until
        return super().partitions(start, end)
