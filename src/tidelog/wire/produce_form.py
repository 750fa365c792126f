"""The form of a produce request: all of it but the correlation id and the records.

A producer sends the same form again and again. Who knows a form finds the records of the next request by one
comparison, and writes its answer with one call, instead of decoding and encoding messages. Called by
`broker/repeated_produce.py`; what differs in any way has another form, and is decoded as usual.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from struct import error as StructError
from typing import Final

from tidelog.wire.compiler import Output
from tidelog.wire.frames import encode_response
from tidelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.primitives import uvarint

# From here on requests and answers are flexible, and end with tags.
FIRST_FLEXIBLE_VERSION: Final = 9
# The tags behind the partition, the topic and the request: none.
TAIL_BYTES: Final = 3
# API key, version and correlation id are in front of the head.
HEAD_POSITION: Final = 8
# Longer ones are not worth their memory.
HEAD_BYTES_MAX: Final = 512
_UNLIKELY: Final = 0x0102030405060708
_OFFSETS: Final = Struct(">qqq")


class ProduceForm:
    """The form of a request with one partition and no transaction."""

    __slots__ = ("_answer_head", "_answer_length", "_answer_tail", "_pack_answer", "acks", "index", "topic", "version")

    def __init__(self, version: int, request: ProduceRequest) -> None:
        self.version = version
        self.acks = request.acks
        (self.topic,) = request.topic_data
        (partition,) = self.topic.partition_data
        self.index = partition.index
        self._prepare_answer()

    def answer(self, correlation_id: int, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> Output:
        """The whole frame of an answer without an error."""
        return Output(
            self._pack_answer(
                self._answer_length,
                correlation_id,
                self._answer_head,
                base_offset,
                log_append_time_ms,
                log_start_offset,
                self._answer_tail,
            )
        )

    def response(self, answer: PartitionProduceResponse) -> ProduceResponse:
        return ProduceResponse([TopicProduceResponse(self.topic.name, self.topic.topic_id, [answer])])

    def _prepare_answer(self) -> None:
        """Let the encoder write one, and find the three offsets in it."""
        # The records are views into a frame that will be gone.
        self.topic.partition_data = []
        sample = PartitionProduceResponse(self.index, 0, _UNLIKELY, _UNLIKELY, _UNLIKELY)
        frame = bytes(encode_response(0, self.response(sample), self.version))
        offsets = _OFFSETS.pack(_UNLIKELY, _UNLIKELY, _UNLIKELY)
        assert frame.count(offsets) == 1
        position = frame.index(offsets)
        self._answer_length = frame[:4]
        self._answer_head = frame[8:position]
        self._answer_tail = frame[position + len(offsets) :]
        self._pack_answer = Struct(f">4si{len(self._answer_head)}sqqq{len(self._answer_tail)}s").pack


def head_of(version: int, frame: memoryview, request: ProduceRequest) -> bytes | None:
    """What all requests of a form have in common, behind the correlation id; None when it has no form."""
    if version < FIRST_FLEXIBLE_VERSION or request.transactional_id is not None or len(request.topic_data) != 1:
        return None
    partitions = request.topic_data[0].partition_data
    if len(partitions) != 1 or not partitions[0].records or any(frame[-TAIL_BYTES:]):
        return None
    records_bytes = len(partitions[0].records)
    length = uvarint(records_bytes + 1)
    end = len(frame) - TAIL_BYTES - records_bytes - len(length)
    if end - HEAD_POSITION > HEAD_BYTES_MAX or bytes(frame[end : end + len(length)]) != length:
        return None
    return bytes(frame[HEAD_POSITION:end])


class HeadReader:
    """Takes requests apart whose heads have the same number of bytes."""

    __slots__ = ("_records_position", "_unpack")

    def __init__(self, head_bytes: int) -> None:
        self._records_position = HEAD_POSITION + head_bytes + 1
        # Key and version as one number, the correlation id, the head, and at most three bytes of the records' length.
        self._unpack = Struct(f">ii{head_bytes}sBBB").unpack_from

    def read(self, frame: memoryview) -> tuple[int, int, bytes, int] | None:
        """Version, correlation id, head and where the records begin, if it is a produce request with such a head.

        The records reach to the tail. What is no such request is either None or has a head that nobody knows.
        """
        try:
            version, correlation_id, head, first, second, third = self._unpack(frame)
        except StructError:
            return None
        start = self._records_position
        if first < 0x80:
            end = start + first - 1
        elif second < 0x80:
            start += 1
            end = start + (first & 0x7F | second << 7) - 1
        elif third < 0x80:
            start += 2
            end = start + (first & 0x7F | (second & 0x7F) << 7 | third << 14) - 1
        else:
            return None
        # Indices, not slices: a new view costs more than three look-ups. A null has length 0, and does not fit here.
        if end != len(frame) - TAIL_BYTES or frame[end] or frame[end + 1] or frame[end + 2]:
            return None
        return version, correlation_id, head, start


@cache
def head_reader(head_bytes: int) -> HeadReader:
    return HeadReader(head_bytes)
