"""What happens to a record between `send` and its batch: bytes made of it, a partition chosen, room found.

Used by both fronts of the producer, each of which waits in its own way: for a topic to be known, for room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from tidelog.client.core.buffer_policy import BufferFullPolicy
from tidelog.client.core.lines import Lines
from tidelog.client.core.metadata import ClusterView, Topic
from tidelog.client.core.options import ProducerOptions
from tidelog.client.core.partitioner import Partitioner, partitioner_of
from tidelog.client.core.pending import Batch
from tidelog.client.core.record import Headers
from tidelog.client.core.record_encoder import RECORD_OVERHEAD_BYTES, size_bound
from tidelog.client.core.serializers import to_bytes
from tidelog.client.errors import BufferFull, RecordDropped, Rejected, SerializationFailed
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition

NO_HEADERS: Final[Headers] = ()
GivenHeaders = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]


class Places(NamedTuple):
    """The partitions of a topic, made once: as long as the topic is the same object, so are they."""

    topic: Topic
    partitions: tuple[TopicPartition, ...]


class Room(Enum):
    """Whether a record may come in."""

    YES = auto()
    WAIT = auto()
    DROP = auto()


class Intake:
    """The first half of a producer."""

    def __init__(self, options: ProducerOptions, lines: Lines, choose: Callable[[int], int]) -> None:
        sticky_bytes = min(options.batch_size, options.max_request_size)
        self.partitioner: Partitioner = partitioner_of(options.partitioner, choose, sticky_bytes, lines.loads)
        self._options = options
        self._lines = lines
        self._to_key = to_bytes(options.key_serializer)
        self._to_value = to_bytes(options.value_serializer)
        self._places: dict[TopicName, Places] = {}

    def content(
        self, topic: str, key: Any, value: Any, headers: GivenHeaders | None
    ) -> tuple[bytes | None, bytes | None, Headers, int]:
        """Key, value and headers as bytes, and what they take at most. Raises for what no broker would take."""
        if self._to_key is not None:
            key = self._to_key(topic, key)
        if self._to_value is not None:
            value = self._to_value(topic, value)
        size_bytes = RECORD_OVERHEAD_BYTES
        if value is not None:
            if type(value) is not bytes:
                value = _bytes(value, "value")
            size_bytes += len(value)
        if key is not None:
            if type(key) is not bytes:
                key = _bytes(key, "key")
            size_bytes += len(key)
        encoded = NO_HEADERS
        if headers:
            encoded = _headers(headers)
            size_bytes = size_bound(key, value, encoded)
        if size_bytes > self._options.max_request_size:
            raise too_large(size_bytes, self._options.max_request_size)
        return key, value, encoded, size_bytes

    def places(self, topic: str, view: ClusterView) -> tuple[TopicPartition, ...] | None:
        """The partitions of a topic; None when they are not known."""
        name = TopicName(topic)
        known = view.topics.get(name)
        cached = self._places.get(name)
        if cached is not None and cached.topic is known:
            return cached.partitions
        if known is None or known.error or not known.partitions:
            return None
        places = tuple(TopicPartition(name, PartitionIndex(index)) for index in range(len(known.partitions)))
        self._places[name] = Places(known, places)
        return places

    def choose(self, key: bytes | None, size_bytes: int, places: tuple[TopicPartition, ...]) -> TopicPartition:
        """The partition of a record that names none."""
        chosen = self.partitioner.partition(places[0].topic, key, size_bytes, len(places))
        return named(places, chosen)

    def room(self, size_bytes: int) -> tuple[Room, list[Batch]]:
        """Whether there is room for a record, and which batches have to go for it. BufferFull if so is the policy."""
        lines, limit = self._lines, self._options.buffer_memory
        if lines.size_bytes + size_bytes <= limit:
            return Room.YES, []
        policy = self._options.buffer_full
        if policy is BufferFullPolicy.BLOCK:
            return Room.WAIT, []
        if policy is BufferFullPolicy.RAISE:
            raise full(limit)
        if policy is BufferFullPolicy.DROP_NEWEST:
            return Room.DROP, []
        victims: list[Batch] = []
        missing_bytes = lines.size_bytes + size_bytes - limit
        for batch in lines.droppable():
            if missing_bytes <= 0 and policy is BufferFullPolicy.DROP_OLDEST:
                break
            victims.append(batch)
            missing_bytes -= batch.size_bytes
        # What is on its way cannot be called back: then the new record is the one that goes.
        return (Room.DROP if missing_bytes > 0 else Room.YES), victims


def named(places: tuple[TopicPartition, ...], partition: int) -> TopicPartition:
    """The partition that a record, or a partitioner, names."""
    if 0 <= partition < len(places):
        return places[partition]
    topic = places[0].topic
    message = f"Topic '{topic}' has {len(places)} partitions, but no partition {partition}."
    raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def too_large(size_bytes: int, limit: int) -> Rejected:
    message = f"A record of {size_bytes} bytes is larger than the limit of {limit} (max_request_size)."
    return Rejected(ErrorCode.MESSAGE_TOO_LARGE, message)


def full(limit: int) -> BufferFull:
    return BufferFull(f"The buffer of {limit} bytes (buffer_memory) is full.")


def dropped(limit: int) -> RecordDropped:
    return RecordDropped(f"The buffer of {limit} bytes (buffer_memory) was full, and the record was let go.")


def dropped_batch(place: TopicPartition, timestamp_ms: int, limit: int) -> Batch:
    """A batch of one record that never went anywhere, for whoever asks how it ended."""
    batch = Batch(place, 0, timestamp_ms, 0.0)
    batch.count = 1
    batch.settle(dropped(limit))
    return batch


def _bytes(content: Any, what: str) -> bytes:
    if isinstance(content, bytearray | memoryview | bytes):
        return bytes(content)
    raise SerializationFailed(
        f"The {what} is {type(content).__name__}, not bytes; a {what}_serializer can change that."
    )


def _headers(headers: GivenHeaders) -> Headers:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    encoded = []
    for name, content in pairs:
        if isinstance(content, str):
            content = content.encode()
        encoded.append((name, content if content is None else _bytes(content, "header")))
    return tuple(encoded)
