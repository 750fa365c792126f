"""The `.snapshot` files of a partition: all its producers as of an offset, so that a restart need not read the log for
them.

The format is Apache Kafka's, version 1 with a CRC. One entry holds one batch; for the batches before a producer's last
we write further entries in front of it. Apache Kafka keeps the last entry of a producer and so reads its own state, we
get all five back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from struct import Struct
from typing import Final

from tidelog.env.files import Files, read_all
from tidelog.log.errors import CorruptLog
from tidelog.log.producer_entry import REMEMBERED_BATCHES, ProducedBatch, ProducerEntry
from tidelog.log.producers import Producers
from tidelog.log.segment import DELETED_SUFFIX, SNAPSHOT_SUFFIX, file_name
from tidelog.model.ids import NO_OFFSET, Offset, ProducerEpoch, ProducerId
from tidelog.wire.batch import NO_SEQUENCE
from tidelog.wire.crc import crc32c

_VERSION: Final = 1
# version, crc of what follows it
_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, transaction's first offset
_ENTRY: Final = Struct(">qhiqiqiq")
_NO_BATCH: Final = ProducedBatch(NO_SEQUENCE, NO_OFFSET, 0, 0)


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The content of a snapshot file."""
    rows = []
    for entry in entries:
        batches = entry.batches or (_NO_BATCH,)
        for batch in batches:
            newest = batch is batches[-1]
            rows.append(
                _ENTRY.pack(
                    entry.producer_id,
                    entry.epoch,
                    batch.last_sequence,
                    batch.last_offset,
                    batch.offset_delta,
                    entry.last_timestamp if newest else batch.timestamp,
                    entry.coordinator_epoch,
                    entry.transaction_first_offset,
                )
            )
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes, path: str) -> list[ProducerEntry]:
    """The producers in a snapshot file, Apache Kafka's or ours. Raises CorruptLog."""
    if len(content) < _HEAD.size + _COUNT.size:
        raise CorruptLog(f"{path} is cut off")
    version, crc = _HEAD.unpack_from(content)
    body = memoryview(content)[_HEAD.size :]
    if version != _VERSION:
        raise CorruptLog(f"{path} has the unknown version {version}")
    if crc32c(body) != crc:
        raise CorruptLog(f"{path} does not match its checksum")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptLog(f"{path} does not hold the {count} entries it announces")
    producers: dict[ProducerId, ProducerEntry] = {}
    for row in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator_epoch, transaction = row
        before = producers.get(producer_id)
        batches = before.batches if before and before.epoch == epoch else ()
        if last_offset >= 0:
            batch = ProducedBatch(sequence, Offset(last_offset), delta, timestamp)
            batches = (*batches[1 - REMEMBERED_BATCHES :], batch)
        producers[ProducerId(producer_id)] = ProducerEntry(
            ProducerId(producer_id),
            ProducerEpoch(epoch),
            batches,
            timestamp,
            coordinator_epoch,
            Offset(transaction) if transaction >= 0 else NO_OFFSET,
        )
    return list(producers.values())


class ProducerSnapshots:
    """The snapshot files of one partition, by the offset up to which they know."""

    __slots__ = ("_directory", "_files", "_offsets")

    def __init__(self, files: Files, directory: str, offsets: Iterable[Offset] = ()) -> None:
        self._files = files
        self._directory = directory
        self._offsets = set(offsets)

    def _path(self, offset: Offset) -> str:
        return f"{self._directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    @property
    def offsets(self) -> list[Offset]:
        return sorted(self._offsets)

    def take(self, offset: Offset, producers: Producers) -> None:
        """Write down the producers as of `offset`. Not durable before `sync`; the CRC tells a torn one."""
        content = encode_snapshot(producers.entries())
        file = self._files.open(self._path(offset), create=True)
        try:
            file.truncate(0)
            file.write([content], 0)
        finally:
            file.close()
        self._offsets.add(offset)

    def sync(self, offset: Offset) -> None:
        """May run in a thread."""
        with contextlib.suppress(FileNotFoundError):
            file = self._files.open(self._path(offset))
            try:
                file.sync()
            finally:
                file.close()

    def newest(self, at_most: Offset) -> tuple[Offset, list[ProducerEntry]] | None:
        """The newest readable snapshot that knows no more than `at_most`. Those that cannot be read are removed."""
        for offset in reversed(self.offsets):
            if offset > at_most:
                continue
            path = self._path(offset)
            try:
                return offset, decode_snapshot(read_all(self._files, path), path)
            except CorruptLog:
                self.remove(offset)
            except FileNotFoundError:
                self._offsets.discard(offset)
        return None

    def remove(self, offset: Offset) -> None:
        self._offsets.discard(offset)
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(self._path(offset))

    def remove_after(self, offset: Offset) -> None:
        """The log ends at `offset` now."""
        for stale in [known for known in self._offsets if known > offset]:
            self.remove(stale)

    def rename_to_deleted(self, offset: Offset) -> list[str]:
        """The snapshot of a segment that is deleted goes with it."""
        if offset not in self._offsets:
            return []
        self._offsets.discard(offset)
        path = self._path(offset)
        try:
            self._files.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            return []
        return [path + DELETED_SUFFIX]

    def keep_only(self, segment_bases: Iterable[Offset]) -> None:
        """Remove snapshots that belong to no segment, except the newest: it was taken when the log was closed."""
        newest = max(self._offsets, default=None)
        for stray in self._offsets - set(segment_bases) - {newest}:
            self.remove(stray)
