"""Offset commits that repeat themselves are known again by their bytes; what differs in any way is not."""

from __future__ import annotations

import pytest

from tidelog.wire.commit_form import FORM_BYTES_MAX, LAYOUTS_MAX, RUN_OFFSETS_MAX, CommitForm, CommitReader, Texts
from tidelog.wire.compiler import reader
from tidelog.wire.frames import LENGTH_BYTES, encode_request, encode_response, parse_request_header
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

VERSION = 9


def request(*offsets: int, metadata: str | None = "", group: str = "readers") -> OffsetCommitRequest:
    """Partition 0 at the first offset, partition 1 at the second…"""
    partitions = [OffsetCommitRequestPartition(index, offset, 3, metadata) for index, offset in enumerate(offsets)]
    return OffsetCommitRequest(group, 4, "me", topics=[OffsetCommitRequestTopic("orders", partitions=partitions)])


def frame(*offsets: int, number: int = 1, version: int = VERSION, **how: str) -> bytes:
    return encode_request(request(*offsets, **how), version, number, "raw")


class Known:
    """A reader, and the forms that it was taught, by name."""

    def __init__(self) -> None:
        self.reader = CommitReader()
        self.forms: dict[Texts, str] = {}

    def learn(self, sent: bytes, name: str = "form", version: int = VERSION) -> bool:
        body = memoryview(sent)[LENGTH_BYTES:]
        decoded, _ = reader(OffsetCommitRequest, version)(body, parse_request_header(body).body_position)
        texts = self.reader.learn(version, body, decoded)
        if texts is not None:
            self.forms[texts] = name
        return texts is not None

    def read(self, data: bytes, end: int | None = None) -> list[tuple[str, tuple[int, ...]]]:
        run = self.reader.read(memoryview(data), 0, len(data) if end is None else end, self.forms)
        return [] if run is None else run.commits


@pytest.mark.parametrize("version", range(2, 11))
def test_a_form_is_known_again_whatever_the_offsets_and_the_correlation_id(version: int) -> None:
    known = Known()
    assert known.learn(frame(1, 2, version=version), version=version)
    for offsets in ((1, 2), (0, 2**62), (-1, 0x0102030405060708)):
        assert known.read(frame(*offsets, number=-7, version=version)) == [("form", offsets)]


def test_a_run_ends_before_what_is_not_whole_or_not_known() -> None:
    known = Known()
    known.learn(frame(1), "one")
    known.learn(frame(1, 2), "two")
    run = frame(5) + frame(6, 7) + frame(8)
    assert known.read(run) == [("one", (5,)), ("two", (6, 7)), ("one", (8,))]
    assert known.read(run, len(run) - 1) == [("one", (5,)), ("two", (6, 7))]
    assert known.read(run + b"\0\0") == known.read(run)
    assert known.read(frame(5) + frame(6, group="writers") + frame(7)) == [("one", (5,))]
    assert known.read(frame(5, version=8)) == []
    assert known.read(b"") == known.read(run, 3) == []


def test_what_is_in_a_run_is_told_with_where_it_ends() -> None:
    known = Known()
    known.learn(frame(1))
    data = memoryview(frame(5, number=8) + frame(6, number=9))
    run = known.reader.read(data, 0, len(data), known.forms)
    assert run is not None
    assert run.correlation_ids == [(8).to_bytes(4), (9).to_bytes(4)]
    assert run.ends == [len(frame(5)), 2 * len(frame(5))]


def test_a_run_does_not_go_on_for_ever() -> None:
    known = Known()
    known.learn(frame(1))
    assert len(known.read(frame(5) * (RUN_OFFSETS_MAX + 1))) == RUN_OFFSETS_MAX


def test_a_request_that_says_it_in_other_words_has_no_form() -> None:
    sent = bytearray(frame(1))
    assert sent[-1] == 0
    # An unknown tag at the end, which readers skip.
    sent[-1:] = b"\x01\x63\x02xy"
    sent[:LENGTH_BYTES] = (len(sent) - LENGTH_BYTES).to_bytes(LENGTH_BYTES)
    known = Known()
    assert not known.learn(bytes(sent))
    assert known.learn(frame(1))
    assert known.read(bytes(sent)) == []


@pytest.mark.parametrize(
    "sent",
    [frame(), frame(1, metadata="\x01\x02\x03\x04\x05\x06\x07\x08"), frame(1, metadata="x" * FORM_BYTES_MAX)],
    ids=["nothing committed", "offsets that cannot be told from words", "too long"],
)
def test_some_requests_have_no_form(sent: bytes) -> None:
    assert not Known().learn(sent)


def test_a_connection_that_sends_all_lengths_is_taught_anew() -> None:
    known = Known()
    for length in range(LAYOUTS_MAX + 1):
        assert known.learn(frame(1, metadata="x" * length), str(length))
    assert known.read(frame(2, metadata="")) == []
    assert known.read(frame(2, metadata="x" * LAYOUTS_MAX)) == [(str(LAYOUTS_MAX), (2,))]


@pytest.mark.parametrize("version", range(2, 11))
def test_the_answer_is_what_the_general_way_makes(version: int) -> None:
    partitions = [OffsetCommitResponsePartition(0), OffsetCommitResponsePartition(1)]
    general = OffsetCommitResponse(topics=[OffsetCommitResponseTopic("orders", partitions=partitions)])
    form = CommitForm(version, request(1, 2))
    assert form.answer((77).to_bytes(4)) == bytes(encode_response(77, general, version))
