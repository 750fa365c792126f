"""The quick way for messages of their usual shape gives exactly what the general way gives, and is really taken."""

from __future__ import annotations

import sys
from collections.abc import Callable
from struct import unpack_from
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_messages import (
    SOME_UUID,
    Inner,
    Plain,
    PlainPartition,
    PlainTopic,
    Usual,
    UsualTopic,
    UsualWithoutBytes,
    messages,
    versions_of,
)

from tidelog.wire.compiler import MalformedMessage, Output, decode, encode, reader, responder, source, writer
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tidelog.wire.schema import Message

PARTITION = PlainPartition(index=3, content=b"c" * 200, own=Inner("own", 1))


def usual(**changed: Any) -> Usual:
    """A message of the usual shape, but for the changed fields of its partition."""
    partition = PlainPartition(**{name: getattr(PARTITION, name) for name in PARTITION.__struct_fields__} | changed)
    return Usual(None, -1, [UsualTopic("tide", partitions=[partition])])


def plain(message: Usual) -> Plain:
    topics = [PlainTopic(topic.name, topic.id, topic.partitions) for topic in message.topics]
    return Plain(message.transaction, message.acks, topics, message.rack)


def check_same(message: Usual, version: int) -> None:
    same = plain(message)
    encoded = encode(same, version)
    assert encode(message, version) == encoded
    assert responder(Usual, version)(7, message) == responder(Plain, version)(7, same)
    assert plain(decode(Usual, version, encoded)) == decode(Plain, version, encoded) == same


@pytest.mark.parametrize("version", versions_of(Usual))
@given(data=st.data())
def test_any_message_is_the_same_both_ways(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(Usual, version))
    assert isinstance(message, Usual)
    check_same(message, version)


@pytest.mark.parametrize("version", versions_of(Usual))
@pytest.mark.parametrize(
    "message",
    [
        usual(),
        usual(errors=[Inner("e", 1)]),
        usual(aborted=None),
        usual(aborted=[1]),
        usual(message="m"),
        usual(message=""),
        usual(cursor=Inner()),
        usual(content=None),
        usual(content=b""),
        *(usual(content=b"c" * length) for length in (1, 126, 127, 128, 16382, 16383, 16384, 70000)),
        usual(own=Inner("long" * 50)),
        Usual(),
        Usual("transaction", 1, usual().topics),
        Usual(None, 1, usual().topics, "rack"),
        Usual(None, 1, usual().topics * 2),
        Usual(None, 1, [UsualTopic("long" * 40, partitions=[PARTITION])]),
        Usual(None, 1, [UsualTopic("", partitions=[PARTITION])]),
        Usual(None, 1, [UsualTopic("none", partitions=None)]),
        Usual(None, 1, [UsualTopic("two", partitions=[PARTITION, PARTITION])]),
    ],
)
def test_the_usual_shape_and_what_nearly_has_it_are_the_same_both_ways(message: Usual, version: int) -> None:
    check_same(message, version)


@pytest.mark.parametrize("version", [1, 2])
def test_a_field_that_old_versions_lack_keeps_its_value(version: int) -> None:
    check_same(Usual(None, 0, [UsualTopic("tide", SOME_UUID, [PARTITION])]), version)


def test_a_tagged_value_leaves_the_quick_way() -> None:
    check_same(usual(leader=Inner("leader", 2)), 2)


def test_an_unknown_tag_leaves_the_quick_way() -> None:
    encoded = encode(usual(), 2)
    with_tag = encoded[:-1] + b"\x01\x05\x01z"
    assert reader(Usual, 2)(memoryview(with_tag), 0) == (usual(), len(with_tag))


@pytest.mark.parametrize("version", versions_of(UsualWithoutBytes))
@given(data=st.data())
def test_a_frame_length_that_is_known_beforehand_is_right(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(UsualWithoutBytes, version))
    frame = responder(UsualWithoutBytes, version)(-5, message)  # type: ignore[arg-type]
    length, correlation_id = unpack_from(">ii", frame)
    assert (length, correlation_id) == (len(frame) - 4, -5)
    assert frame.endswith(encode(message, version))


def lines_run(call: Callable[[], object], file: str) -> set[int]:
    """The lines of a generated function that a call runs."""
    lines: set[int] = set()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename == file:
            lines.add(frame.f_lineno)
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


PRODUCE = ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, b"r" * 100)])])
PRODUCED = ProduceResponse([TopicProduceResponse("t", partition_responses=[PartitionProduceResponse(0, 0, 5)])])
FETCH = FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=7)])])
FETCHED = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(0, records=b"r" * 100)])])


@pytest.mark.parametrize("version", [7, 8, 9, 12, 13])
@pytest.mark.parametrize("message", [PRODUCE, PRODUCED, FETCH, FETCHED])
def test_a_message_of_the_usual_shape_that_is_cut_short_is_malformed(message: Message, version: int) -> None:
    kind = type(message)
    encoded = encode(message, version)
    for length in range(len(encoded)):
        with pytest.raises(MalformedMessage):
            decode(kind, version, encoded[:length])


@pytest.mark.parametrize("version", [9, 12])
@pytest.mark.parametrize("message", [PRODUCE, PRODUCED])
def test_a_produce_of_one_batch_goes_the_quick_way(message: Message, version: int) -> None:
    goes_the_quick_way(message, version)


@pytest.mark.parametrize("message", [FETCH, FETCHED])
def test_a_fetch_of_one_partition_goes_the_quick_way(message: Message) -> None:
    goes_the_quick_way(message, 12)


def goes_the_quick_way(message: Message, version: int) -> None:
    kind = type(message)
    read_source, write_source = (part.splitlines() for part in source(kind, version).split("\n\n")[:2])
    quick_read = next(number for number, line in enumerate(read_source, 1) if line == "    position = begun")
    quick_write = next(number for number, line in enumerate(write_source, 1) if line.strip() == "return")
    encoded = memoryview(encode(message, version))
    read, write = reader(kind, version), writer(kind, version)
    read_lines = lines_run(lambda: read(encoded, 0), f"<read {kind.__name__} v{version}>")
    write_lines = lines_run(lambda: write(message, Output()), f"<write {kind.__name__} v{version}>")
    assert 1 < max(read_lines) < quick_read
    assert 1 < max(write_lines) <= quick_write
