"""From chunks to records in the hands of the program: decoded one chunk at a time, handed out as many as are wanted.

Used by both fronts of the consumer. What was fetched before a seek or a rebalance is not handed out after it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tidelog.client.core.chunk import FetchedChunk
from tidelog.client.core.reading import Place, Reading
from tidelog.client.core.record import ConsumerRecord
from tidelog.client.core.record_reader import read_chunk
from tidelog.client.core.serializers import FromBytes
from tidelog.client.errors import Rejected
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import Offset


class Outlet:
    """The last half of a consumer."""

    def __init__(
        self,
        reading: Reading,
        lock: AbstractContextManager[Any],
        key_from: FromBytes | None,
        value_from: FromBytes | None,
        check_crcs: bool,
    ) -> None:
        self._reading = reading
        self._lock = lock
        self._key_from = key_from
        self._value_from = value_from
        self._check_crcs = check_crcs
        self._place: Place | None = None
        self._version = 0
        self._records: list[ConsumerRecord] = []
        self._index = 0
        self._next_offset = Offset(0)

    def records(self, records_max: int) -> list[ConsumerRecord]:
        """As many records as there are, at most so many; the positions go behind them."""
        found: list[ConsumerRecord] = []
        while len(found) < records_max:
            if self._index >= len(self._records) and not self._decode_next():
                break
            end = min(len(self._records), self._index + records_max - len(found))
            part = self._records[self._index : end]
            if not self._advance(end):
                continue
            found += part
        return found

    def chunk(self) -> FetchedChunk | None:
        """The next chunk as it came; the position goes behind it when `went_to` says how far."""
        with self._lock:
            taken = self._reading.take()
            if taken is None:
                return None
            self._place, chunk = taken
            self._version = self._place.version
            return chunk

    def went_to(self, offset: Offset) -> None:
        """Whoever took a chunk has read it up to here."""
        with self._lock:
            if self._place is not None and self._place.version == self._version:
                self._place.position = offset

    def drop(self) -> None:
        """Hand out nothing that was decoded before."""
        self._records, self._index = [], 0

    def _decode_next(self) -> bool:
        chunk = self.chunk()
        if chunk is None:
            self.drop()
            return False
        try:
            records, self._next_offset = read_chunk(chunk, self._check_crcs)
        except ProtocolError as error:
            sentence = f"{chunk.partition} cannot be read at offset {chunk.position}: {error}"
            raise Rejected(error.code, sentence) from None
        if self._key_from is not None or self._value_from is not None:
            records = [self._deserialized(record) for record in records]
        self._records, self._index = records, 0
        if not records:
            self.went_to(self._next_offset)
        return True

    def _advance(self, end: int) -> bool:
        """Move the position behind the records before `end`; False when they do not count any more."""
        place = self._place
        with self._lock:
            if place is None or place.version != self._version:
                self.drop()
                return False
            if end == len(self._records):
                place.position = self._next_offset
            elif end:
                place.position = Offset(self._records[end - 1].offset + 1)
            self._index = end
            return True

    def _deserialized(self, record: ConsumerRecord) -> ConsumerRecord:
        key, value = record.key, record.value
        if self._key_from is not None:
            key = self._key_from(record.topic, key)
        if self._value_from is not None:
            value = self._value_from(record.topic, value)
        return ConsumerRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_ms,
            key,
            value,
            record.headers,
            record.is_log_append_time,
            record.leader_epoch,
        )
