"""How offsets become tasks: ranges of partitions, split for parallel readers, and how far one trigger may go.

The readers call it in the driver. Pure: it is told where logs begin and end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tidelog.model.ids import Offset, TopicPartition
from tidelog.spark.positions import Positions


@dataclass(frozen=True, slots=True)
class Range:
    """The records of one partition from an offset on and before another."""

    partition: TopicPartition
    start: Offset
    end: Offset
    # Where the partition's files are, for who reads those instead of asking the broker.
    folder: str = ""

    @property
    def offsets(self) -> int:
        return self.end - self.start


def ranges(
    start: Mapping[TopicPartition, Offset],
    end: Mapping[TopicPartition, Offset],
    *,
    partitions_min: int | None = None,
    records_max: int | None = None,
) -> list[Range]:
    """What lies between two positions, in order. A partition that `start` does not have is read from 0.

    Long ranges are split so that there are at least `partitions_min` in all and none is longer than `records_max`.
    """
    whole = [
        Range(partition, begin, until)
        for partition, until in sorted(end.items())
        if (begin := start.get(partition, Offset(0))) < until
    ]
    pieces = [piece for found in whole for piece in _split_by_length(found, records_max)]
    if partitions_min is None or len(pieces) >= partitions_min or not pieces:
        return pieces
    total = sum(piece.offsets for piece in pieces)
    return [part for piece in pieces for part in _split(piece, max(1, round(partitions_min * piece.offsets / total)))]


def limited(start: Positions, end: Positions, offsets_max: int) -> Positions:
    """The furthest position with at most so many offsets from `start` on, each partition by its share of what waits.

    At least one offset moves while there is any, so that a stream never stands still.
    """
    waiting = {partition: max(0, until - start.get(partition, 0)) for partition, until in end.items()}
    total = sum(waiting.values())
    if total <= offsets_max:
        return end
    shares = {partition: count * offsets_max // total for partition, count in waiting.items()}
    spare = offsets_max - sum(shares.values())
    # What rounding left over goes to those who wait for most.
    for partition in sorted(waiting, key=lambda which: (shares[which] - waiting[which], which)):
        extra = min(spare, waiting[partition] - shares[partition], 1)
        shares[partition] += extra
        spare -= extra
    return {
        partition: Offset(min(until, start.get(partition, 0) + shares[partition])) if waiting[partition] else until
        for partition, until in end.items()
    }


def waiting_offsets(start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]) -> int:
    """How many offsets lie between two positions."""
    return sum(max(0, until - start.get(partition, 0)) for partition, until in end.items())


def _split_by_length(whole: Range, records_max: int | None) -> Iterable[Range]:
    if records_max is None:
        return [whole]
    return _split(whole, -(-whole.offsets // records_max))


def _split(whole: Range, parts: int) -> list[Range]:
    bounds = [Offset(whole.start + whole.offsets * part // parts) for part in range(parts + 1)]
    return [Range(whole.partition, start, end) for start, end in pairwise(bounds) if start < end]
