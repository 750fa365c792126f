"""Making the producers of a log again from its batches, for what no snapshot knows.

Called when a log is opened or truncated. Only headers are read, except of the batches that end a transaction.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.log.batch_walk import walk
from tidelog.log.markers import read_marker
from tidelog.log.producer_entry import ProducerEntry
from tidelog.log.producer_snapshots import ProducerSnapshots
from tidelog.log.producers import Producers
from tidelog.log.segment import Segment
from tidelog.log.transaction_index import AbortedTransaction
from tidelog.model.ids import Offset
from tidelog.wire.batch import HEADER_BYTES, BatchHeader, Buffer, read_header


class KnownProducers(NamedTuple):
    """The producers as of an offset: what a snapshot holds, without a file."""

    offset: Offset
    entries: Sequence[ProducerEntry]


def load_producers(
    segments: Sequence[Segment], snapshots: ProducerSnapshots, end: Offset, known: KnownProducers | None = None
) -> Producers:
    """The producers as of `end`: those that are `known` or else the newest snapshot, then the batches after it.

    Takes missing snapshots on the way.
    """
    found: tuple[Offset, Sequence[ProducerEntry]] | None = known
    if known is None or known.offset > end:
        found = snapshots.newest(at_most=end)
    if found is None and not segments:
        return Producers()
    known_up_to, entries = found or (segments[0].base_offset, [])
    producers = Producers(entries)
    if known_up_to >= end:
        return producers
    for segment in segments[max(bisect_right([one.base_offset for one in segments], known_up_to) - 1, 0) :]:
        if segment.base_offset > known_up_to:
            with contextlib.suppress(OSError):  # It saves time later, no more.
                snapshots.take(segment.base_offset, producers)
        _replay_segment(segment, max(known_up_to, segment.base_offset), producers)
    producers.written()
    return producers


def _replay_segment(segment: Segment, start: Offset, producers: Producers) -> None:
    file = segment.opened()
    for landmark in walk(file, segment.position_of(start), segment.size):
        header = read_header(file.read(HEADER_BYTES, landmark.position))
        if header.has_producer_id:
            batch = file.read(landmark.size, landmark.position) if header.is_control else b""
            replay_batch(segment, header, batch, producers)


def replay_batch(segment: Segment, header: BatchHeader, batch: Buffer, producers: Producers) -> None:
    """Take a batch of a producer into account, and note the transaction it aborts. Only looks into control batches."""
    base = Offset(header.base_offset)
    if not header.is_control:
        producers.staged(header, base)
        return
    marker = read_marker(batch)
    completed = producers.staged_marker(header, base, marker) if marker else None
    if completed is not None and completed.aborted:
        stable = producers.last_stable_offset_after(completed)
        aborted = AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
        if aborted not in segment.transaction_index.all():
            segment.transaction_index.add(aborted)
