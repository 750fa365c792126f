"""Holds the index files of a segment against the batches that were seen in it. Called by `log/audit.py`; read-only."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from tidelog.env.files import Files, read_all
from tidelog.log.audit_batches import Damage
from tidelog.log.offset_index import OFFSET_ENTRY
from tidelog.log.time_index import TIME_ENTRY
from tidelog.log.transaction_index import AbortedTransaction, TransactionIndex

# An index whose last entries are missing leaves at least this many times its usual distance without one.
SPARSE_FACTOR: Final = 4
SPARSE_BYTES_MIN: Final = 64 * 1024


class SeenSpan(NamedTuple):
    """What the indexes of a segment must know of a batch."""

    position: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def _rows(files: Files, path: str, entry: Struct, damages: list[Damage]) -> list[tuple[int, int]] | None:
    try:
        content = read_all(files, path)
    except FileNotFoundError:
        return None
    odd = len(content) % entry.size
    if odd:
        damages.append(Damage("index-torn", f"{odd} bytes at the end are no whole entry"))
        content = content[:-odd]
    rows = list(entry.iter_unpack(content))
    # A broker that reserves space leaves zeros behind the last entry.
    while len(rows) > 1 and not any(rows[-1]):
        rows.pop()
    return rows


def offset_index_damages(
    files: Files, path: str, base_offset: int, spans: list[SeenSpan], size: int, *, is_sealed: bool
) -> Iterator[Damage]:
    torn: list[Damage] = []
    rows = _rows(files, path, OFFSET_ENTRY, torn)
    yield from torn
    if rows is None:
        if is_sealed and spans:
            yield Damage("index-missing", "there is no offset index")
        return
    if rows == [(0, 0)]:
        rows = []
    if any(later[0] <= earlier[0] or later[1] <= earlier[1] for earlier, later in pairwise(rows)):
        yield Damage("index-order", "entries do not grow")
    by_position = {span.position: span for span in spans}
    last_offsets = {span.last_offset for span in spans}
    for relative, position in rows:
        span = by_position.get(position)
        if span is None:
            yield Damage("index-entry", f"offset {base_offset + relative} leads to {position}, where no batch begins")
        elif not span.base_offset <= base_offset + relative or base_offset + relative not in last_offsets:
            # Apache Kafka makes one entry for several batches: the position of the first, the offset of the last.
            text = f"offset {base_offset + relative} leads to {position}, whose batch ends with {span.last_offset}"
            yield Damage("index-entry", text)
    distances = [later[1] - earlier[1] for earlier, later in pairwise([(0, 0), *rows])]
    covered = rows[-1][1] if rows else 0
    limit = max(SPARSE_FACTOR * max(distances, default=0), SPARSE_BYTES_MIN)
    if is_sealed and _bytes_to_cover(spans, covered, size) > limit:
        yield Damage("index-short", f"the last {size - covered} bytes of the segment have no entry")


def _bytes_to_cover(spans: list[SeenSpan], covered: int, size: int) -> int:
    """Bytes behind the last entry that should have one. The last batch need not, and behind a restart of Apache Kafka
    one more does not, however large: it begins to count anew."""
    starts = [span.position for span in spans if span.position >= covered]
    lengths = [end - start for start, end in pairwise([*starts, size])]
    return sum(lengths[:-1]) - max(lengths[:-1], default=0)


def time_index_damages(
    files: Files, path: str, base_offset: int, spans: list[SeenSpan], *, is_sealed: bool
) -> Iterator[Damage]:
    torn: list[Damage] = []
    rows = _rows(files, path, TIME_ENTRY, torn)
    yield from torn
    largest = max((span.max_timestamp for span in spans), default=-1)
    if rows is None:
        if is_sealed and largest >= 0:
            yield Damage("index-missing", "there is no time index")
        return
    if rows == [(0, 0)]:
        rows = []
    if any(later[0] <= earlier[0] or later[1] < earlier[1] for earlier, later in pairwise(rows)):
        yield Damage("index-order", "entries do not grow")
    bases = [span.base_offset for span in spans]
    for timestamp, relative in rows:
        number = bisect_right(bases, base_offset + relative) - 1
        span = spans[number] if number >= 0 else None
        if span is None or span.last_offset < base_offset + relative:
            yield Damage("index-entry", f"timestamp {timestamp} leads to {base_offset + relative}, where no batch is")
        elif span.max_timestamp != timestamp:
            text = f"offset {base_offset + relative} has the timestamp {span.max_timestamp}, not {timestamp}"
            yield Damage("index-entry", text)
    if is_sealed and largest >= 0 and (not rows or rows[-1][0] < largest):
        yield Damage("index-short", f"the largest timestamp {largest} is not in it")


def transaction_index_damages(
    files: Files, path: str, expected: list[AbortedTransaction], *, may_lack: bool
) -> Iterator[Damage]:
    """`may_lack`: compaction took records away, so that entries may stand for what is gone."""
    try:
        size = files.size(path)
    except FileNotFoundError:
        size = 0
    if size % TransactionIndex.ENTRY_BYTES:
        yield Damage("index-torn", f"{size % TransactionIndex.ENTRY_BYTES} bytes at the end are no whole entry")
    found = TransactionIndex(files, path).all()
    if any(later.last_offset <= earlier.last_offset for earlier, later in pairwise(found)):
        yield Damage("index-order", "entries do not grow")
    known = {(one.producer_id, one.first_offset, one.last_offset) for one in found}
    wanted = {(one.producer_id, one.first_offset, one.last_offset) for one in expected}
    for producer_id, first, last in sorted(wanted - known):
        yield Damage("transaction-missing", f"producer {producer_id} aborted {first} to {last}, which is not in it")
    if not may_lack:
        for producer_id, first, last in sorted(known - wanted):
            yield Damage("transaction-unknown", f"producer {producer_id} did not abort {first} to {last}")
