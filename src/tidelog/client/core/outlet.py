"""From chunks to records in the hands of the program: decoded one chunk at a time, handed out as many as are wanted.

Used by both fronts of the consumer. What was fetched before a seek or a rebalance is not handed out after it; what was
decoded of a partition that is paused waits until it is resumed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import msgspec

from tidelog.client.core.chunk import FetchedChunk
from tidelog.client.core.reading import Place, Reading
from tidelog.client.core.record import ConsumerRecord
from tidelog.client.core.record_reader import read_chunk
from tidelog.client.core.serializers import FromBytes
from tidelog.client.errors import ClientError, Rejected, SerializationFailed
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, Offset


@dataclass(slots=True, eq=False)
class _Decoded:
    """The records of a chunk, and how many of them were handed out."""

    place: Place
    version: int
    records: list[ConsumerRecord]
    next_offset: Offset
    last_epoch: LeaderEpoch
    # What stands in the place of the next record: it cannot be made into one.
    failure: ClientError | None = None
    index: int = 0


class Outlet:
    """The last half of a consumer."""

    def __init__(
        self,
        reading: Reading,
        lock: AbstractContextManager[Any],
        key_from: FromBytes | None,
        value_from: FromBytes | None,
        check_crcs: bool,
        on_taken: Callable[[], None],
    ) -> None:
        self._reading = reading
        self._lock = lock
        self._key_from = key_from
        self._value_from = value_from
        self._check_crcs = check_crcs
        # Called when a chunk was taken, so that the next is fetched while this one is read.
        self._on_taken = on_taken
        self._now: _Decoded | None = None
        self._held: list[_Decoded] = []
        # Where the chunk that was given out as it came belongs.
        self._taken: tuple[Place, int, LeaderEpoch] | None = None

    def records(self, records_max: int) -> list[ConsumerRecord]:
        """As many records as there are, at most so many; the positions go behind them.

        Raises what is wrong with a record when it is the next: the position stays before it.
        """
        found: list[ConsumerRecord] = []
        while len(found) < records_max:
            now = self._now
            if now is None or (now.index >= len(now.records) and now.failure is None):
                now = self._now = self._next()
                if now is None:
                    break
            end = min(len(now.records), now.index + records_max - len(found))
            part = now.records[now.index : end]
            if not self._advance(now, end):
                continue
            found += part
            if not part and now.failure is not None:
                if found:
                    break
                self._put_back(now)
                self._now = None
                raise now.failure
        return found

    def one(self) -> ConsumerRecord | None:
        """The next of the records that are decoded already, if there is one; the position goes behind it."""
        now = self._now
        if now is None or now.index >= len(now.records):
            return None
        record = now.records[now.index]
        return record if self._advance(now, now.index + 1) else None

    def chunk(self) -> FetchedChunk | None:
        """The next chunk as it came; the position goes behind it when `went_to` says how far."""
        for decoded in (self._now, *self._held):
            # Who reads chunks after records goes on where the records stopped.
            if decoded is not None and (decoded.index < len(decoded.records) or decoded.failure is not None):
                self._put_back(decoded)
        self._now = None
        self._held.clear()
        taken = self._take()
        if taken is None:
            return None
        place, version, chunk = taken
        self._taken = place, version, chunk.last_epoch
        return chunk

    def went_to(self, offset: Offset) -> None:
        """Whoever took a chunk has read it up to here."""
        assert self._taken is not None, "no chunk was taken"
        place, version, last_epoch = self._taken
        with self._lock:
            if place.version == version:
                place.went_to(offset, last_epoch)

    def _take(self) -> tuple[Place, int, FetchedChunk] | None:
        with self._lock:
            taken = self._reading.take()
            if taken is None:
                return None
            place, chunk = taken
            version = place.version
        self._on_taken()
        return place, version, chunk

    def _next(self) -> _Decoded | None:
        """What to hand out next: what was held of a partition that is resumed, else a new chunk."""
        for held in list(self._held):
            if held.place.version != held.version or not held.place.paused:
                self._held.remove(held)
                return held
        taken = self._take()
        if taken is None:
            return None
        place, version, chunk = taken
        try:
            records, next_offset = read_chunk(chunk, self._check_crcs)
        except ProtocolError as error:
            sentence = f"{chunk.partition} cannot be read at offset {chunk.position}: {error}"
            return _Decoded(place, version, [], chunk.position, NO_EPOCH, Rejected(error.code, sentence))
        decoded = _Decoded(place, version, records, next_offset, chunk.last_epoch)
        if self._key_from is not None or self._value_from is not None:
            self._deserialize(decoded)
        return decoded

    def _advance(self, now: _Decoded, end: int) -> bool:
        """Move the position behind the records before `end`; False when they are not to be handed out, at least now."""
        place = now.place
        with self._lock:
            if place.version != now.version:
                self._now = None
                return False
            if place.paused:
                self._held.append(now)
                self._now = None
                return False
            if end == len(now.records) and now.failure is None:
                place.went_to(now.next_offset, now.last_epoch)
            elif end > now.index:
                last = now.records[end - 1]
                place.went_to(Offset(last.offset + 1), NO_EPOCH if last.leader_epoch is None else last.leader_epoch)
            now.index = end
            return True

    def _put_back(self, decoded: _Decoded) -> None:
        """What was not handed out is fetched again."""
        with self._lock:
            if decoded.place.version == decoded.version:
                decoded.place.fetch_again()
        self._on_taken()

    def _deserialize(self, decoded: _Decoded) -> None:
        """Make keys and values of bytes, up to a record of which that cannot be done."""
        converted: list[ConsumerRecord] = []
        for record in decoded.records:
            key, value = record.key, record.value
            try:
                if self._key_from is not None:
                    key = self._key_from(record.topic, key)
                if self._value_from is not None:
                    value = self._value_from(record.topic, value)
            except SerializationFailed as error:
                decoded.failure = SerializationFailed(
                    f"{decoded.place.partition} at offset {record.offset}: {error}",
                    partition=decoded.place.partition,
                    offset=record.offset,
                )
                decoded.failure.__cause__ = error
                break
            converted.append(msgspec.structs.replace(record, key=key, value=value))
        decoded.records = converted
