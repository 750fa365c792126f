"""The entries of index and snapshot files, for `tidelog log dump`. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.cli.failures import BadInput
from tidelog.cli.log_files import offset_entries, time_entries


class Entries(NamedTuple):
    """What a file holds, as a table."""

    columns: list[str]
    rows: list[tuple[object, ...]]


def _offsets(path: Path) -> Entries:
    return Entries(["offset", "position"], list(offset_entries(path)))


def _times(path: Path) -> Entries:
    return Entries(["timestamp", "offset"], list(time_entries(path)))


def _transactions(path: Path) -> Entries:
    from tidelog.env.files import RealFiles
    from tidelog.log.errors import CorruptLog
    from tidelog.log.transaction_index import TransactionIndex

    try:
        aborted = TransactionIndex(RealFiles(), str(path)).all()
    except CorruptLog as error:
        raise BadInput(str(error)) from None
    return Entries(
        ["producer_id", "first_offset", "last_offset", "last_stable_offset"], [tuple(one) for one in aborted]
    )


def _producers(path: Path) -> Entries:
    from tidelog.log.errors import CorruptLog
    from tidelog.log.producer_snapshots import decode_snapshot

    try:
        producers = decode_snapshot(path.read_bytes(), str(path))
    except CorruptLog as error:
        raise BadInput(str(error)) from None
    return Entries(
        ["producer_id", "epoch", "last_sequence", "last_offset", "last_timestamp", "transaction_first_offset"],
        [
            (
                one.producer_id,
                one.epoch,
                one.batches[-1].last_sequence if one.batches else -1,
                one.batches[-1].last_offset if one.batches else -1,
                one.last_timestamp,
                one.transaction_first_offset,
            )
            for one in producers
        ],
    )


INDEX_FILES: Final[Mapping[str, Callable[[Path], Entries]]] = {
    ".index": _offsets,
    ".timeindex": _times,
    ".txnindex": _transactions,
    ".snapshot": _producers,
}
