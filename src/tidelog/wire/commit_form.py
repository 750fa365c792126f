"""The form of an offset commit: all of the request but the correlation id and the offsets.

A consumer commits the same partitions in the same words again and again, only further on. Who knows a form finds the
offsets of the next request by one comparison (`CommitReader`), and its answer is written already. Called by
`broker/repeated_commits.py`; what differs in any way has another form, and is decoded as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.wire.compiler import encode
from tidelog.wire.frames import encode_response
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FRAME_LENGTH_BYTES: Final = 4
# API key, version and correlation id.
HEAD_POSITION: Final = 8
# Longer requests are dear enough without this, and not worth the memory.
FORM_BYTES_MAX: Final = 4096
# Requests of so many lengths a connection is known to send; who sends more begins again.
LAYOUTS_MAX: Final = 64
REMEMBERED_LAYOUTS_MAX: Final = 1024
# A run holds up the turn's other connections; this many take a few milliseconds.
RUN_OFFSETS_MAX: Final = 500
# Stands for each offset while a form is taken apart.
_UNLIKELY: Final = 0x0102030405060708
_UNLIKELY_BYTES: Final = _UNLIKELY.to_bytes(8)
_frame_bytes = Struct(">i").unpack_from

# What stands around the offsets: API key and version, then all up to the first offset, up to the next, to the end.
Texts = tuple[bytes, ...]
FormT = TypeVar("FormT")


class CommitForm:
    """Requests of one form, and the answer to each of them when it was committed."""

    __slots__ = ("_answer_head", "_answer_tail", "request", "version")

    def __init__(self, version: int, request: OffsetCommitRequest) -> None:
        self.version = version
        # One of them, to look at everything but its offsets.
        self.request = request
        committed = OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    topic.name,
                    topic.topic_id,
                    [OffsetCommitResponsePartition(partition.partition_index) for partition in topic.partitions],
                )
                for topic in request.topics
            ]
        )
        frame = bytes(encode_response(0, committed, version))
        self._answer_head = frame[:FRAME_LENGTH_BYTES]
        self._answer_tail = frame[FRAME_LENGTH_BYTES + 4 :]

    def answer(self, correlation_id: bytes) -> bytes:
        """The whole frame of the answer without an error."""
        return self._answer_head + correlation_id + self._answer_tail


class RunOfCommits(NamedTuple, Generic[FormT]):
    """Commits one behind the other: for each its correlation id, its form, its offsets, and where it ends."""

    correlation_ids: list[bytes]
    commits: list[tuple[FormT, tuple[int, ...]]]
    ends: list[int]


class CommitReader:
    """Finds commits of known forms in what one connection sends. It learns where their offsets are, by their length."""

    __slots__ = ("_layouts",)

    api_key: Final = OffsetCommitRequest.API_KEY

    def __init__(self) -> None:
        self._layouts: dict[int, Struct] = {}

    def learn(self, version: int, frame: memoryview, request: OffsetCommitRequest) -> Texts | None:
        """What is the same in all requests of a form, from one of them; None when it has no form.

        The request's offsets are lost. They must not be asked for any more.
        """
        partitions = [partition for topic in request.topics for partition in topic.partitions]
        if not partitions or len(frame) > FORM_BYTES_MAX:
            return None
        for partition in partitions:
            partition.committed_offset = _UNLIKELY
        body = encode(request, version)
        around = body.split(_UNLIKELY_BYTES)
        if len(around) != len(partitions) + 1:
            return None
        header_bytes = len(frame) - len(body)
        if header_bytes < HEAD_POSITION:
            return None
        layout = _layout(header_bytes + len(around[0]) - HEAD_POSITION, *map(len, around[1:]))
        fields = layout.unpack(len(frame).to_bytes(FRAME_LENGTH_BYTES) + frame)
        texts: Texts = fields[1::2]
        if not texts[1].endswith(around[0]) or list(texts[2:]) != around[1:]:
            # It says the same in other words than we would: with unknown tags, perhaps.
            return None
        if len(self._layouts) >= LAYOUTS_MAX:
            self._layouts.clear()
        self._layouts[len(frame)] = layout
        return texts

    def read(
        self, view: memoryview, position: int, end: int, known: Mapping[Texts, FormT]
    ) -> RunOfCommits[FormT] | None:
        """The longest run of commits of known forms at the front of view[position:end]; None when there is none."""
        run: RunOfCommits[FormT] | None = None
        layouts = self._layouts
        offsets_count = 0
        while offsets_count < RUN_OFFSETS_MAX and end - position >= FRAME_LENGTH_BYTES:
            layout = layouts.get(_frame_bytes(view, position)[0])
            if layout is None or position + layout.size > end:
                break
            fields = layout.unpack_from(view, position)
            form = known.get(fields[1::2])
            if form is None:
                break
            if run is None:
                run = RunOfCommits([], [], [])
            position += layout.size
            offsets = fields[4::2]
            offsets_count += len(offsets)
            run.correlation_ids.append(fields[2])
            run.commits.append((form, offsets))
            run.ends.append(position)
        return run


@lru_cache(maxsize=REMEMBERED_LAYOUTS_MAX)
def _layout(head_bytes: int, *behind_bytes: int) -> Struct:
    """The frame's length; key and version; the correlation id; and, in turns, text and offset. The last is text."""
    return Struct(">i4s4s" + f"{head_bytes}s" + "".join(f"q{count}s" for count in behind_bytes))
