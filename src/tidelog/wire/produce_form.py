"""The form of a produce request: all of it but the correlation id and the records.

A producer sends the same form again and again. Who knows a form finds the records of the next request by one
comparison (`wire/produce_run.py`), and writes its answer with one call, instead of decoding and encoding messages.
Called by `broker/repeated_produce.py`; what differs in any way has another form, and is decoded as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

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
_OFFSET: Final = Struct(">q")
_OFFSETS: Final = Struct(">qq")
# The records keep their own timestamps.
NO_APPEND_TIME: Final = -1


class ProduceForm:
    """The form of a request with one partition."""

    __slots__ = (
        "_answer_end",
        "_answer_head",
        "_answer_length",
        "_answer_tail",
        "_log_start_offset",
        "_pack_answer",
        "acks",
        "index",
        "is_transactional",
        "topic",
        "version",
    )

    def __init__(self, version: int, request: ProduceRequest) -> None:
        self.version = version
        self.acks = request.acks
        (self.topic,) = request.topic_data
        (partition,) = self.topic.partition_data
        self.index = partition.index
        self.is_transactional = request.transactional_id is not None
        # An answer is five pieces: its length, the correlation id, this head, the base offset, and a tail that changes
        # when the log's start does.
        self._answer_tail = b""
        self._log_start_offset = _UNLIKELY
        # The records are views into a frame that will be gone.
        self.topic.partition_data = []
        sample = PartitionProduceResponse(self.index, 0, _UNLIKELY, _UNLIKELY, _UNLIKELY)
        frame = bytes(encode_response(0, self.response(sample), version))
        offsets = _OFFSET.pack(_UNLIKELY) * 3
        assert frame.count(offsets) == 1
        position = frame.index(offsets)
        self._answer_length = frame[:4]
        self._answer_head = frame[8:position]
        self._answer_end = frame[position + len(offsets) :]
        tail_bytes = len(frame) - position - _OFFSET.size
        self._pack_answer = Struct(f">4si{len(self._answer_head)}sq{tail_bytes}s").pack

    def answers(
        self, correlation_ids: Sequence[int], base_offsets: Sequence[int], log_start_offset: int
    ) -> list[bytes]:
        """The whole frames of answers without an error."""
        if log_start_offset != self._log_start_offset:
            self._log_start_offset = log_start_offset
            self._answer_tail = _OFFSETS.pack(NO_APPEND_TIME, log_start_offset) + self._answer_end
        pack, length, head, tail = self._pack_answer, self._answer_length, self._answer_head, self._answer_tail
        if len(correlation_ids) == 1:
            return [pack(length, correlation_ids[0], head, base_offsets[0], tail)]
        return [
            pack(length, correlation_id, head, base_offset, tail)
            for correlation_id, base_offset in zip(correlation_ids, base_offsets, strict=False)
        ]

    def response(self, answer: PartitionProduceResponse) -> ProduceResponse:
        return ProduceResponse([TopicProduceResponse(self.topic.name, self.topic.topic_id, [answer])])


def head_of(version: int, frame: memoryview, request: ProduceRequest) -> bytes | None:
    """What all requests of a form have in common, behind the correlation id; None when it has no form."""
    if version < FIRST_FLEXIBLE_VERSION or len(request.topic_data) != 1:
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
