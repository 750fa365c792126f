"""Frames by hand and at random: headers of requests and responses, lengths with splices, and cutting a stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.batch import HEADER_BYTES, read_header
from tidelog.wire.compiler import MalformedMessage, encode, reader
from tidelog.wire.frames import (
    LAID_OUT_BYTES_MAX,
    PLACE_BYTES_MIN,
    FrameSplitter,
    RequestHeader,
    decode_response,
    encode_request,
    encode_request_parts,
    encode_response,
    parse_request_header,
    peek_correlation_id,
)
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.wire.records import Record, build_batch, seal_in_parts
from tidelog.wire.schema import Request


def header_of(spaced_hex: str) -> RequestHeader:
    return parse_request_header(memoryview(bytes.fromhex(spaced_hex)))


def test_an_old_request_has_a_header_without_tags() -> None:
    assert header_of("0003 0008 00000007 0003 616263 ffff") == RequestHeader(3, 8, 7, "abc", 13)


def test_a_flexible_request_has_a_header_with_tags() -> None:
    assert header_of("0003 0009 00000007 0003 616263 00 ffff") == RequestHeader(3, 9, 7, "abc", 14)


def test_tags_in_a_header_are_skipped() -> None:
    assert header_of("0003 0009 00000007 0003 616263 01 05 02 abcd ffff") == RequestHeader(3, 9, 7, "abc", 18)


@pytest.mark.parametrize(("version", "position"), [(8, 10), (9, 11)])
def test_a_client_id_may_be_null(version: int, position: int) -> None:
    assert header_of(f"0003 {version:04x} 00000007 ffff 00") == RequestHeader(3, version, 7, None, position)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("client_id", ["", "x" * 127, "x" * 128, "x" * 32767, "Größe"])
def test_a_client_id_may_have_any_length(client_id: str, version: int) -> None:
    frame = memoryview(encode_request(MetadataRequest(), version, 1, client_id))[4:]
    header = parse_request_header(frame)
    assert header.client_id == client_id
    assert reader(MetadataRequest, version)(frame, header.body_position) == (MetadataRequest(), len(frame))


@pytest.mark.parametrize("version", [-1, 3, 5, 32767])
def test_api_versions_of_any_version_can_be_answered(version: int) -> None:
    header = header_of(f"0012 {version & 0xFFFF:04x} 00000007 ffff 00 00")
    assert (header.api_key, header.api_version, header.correlation_id) == (18, version, 7)


@pytest.mark.parametrize("key", [-1, 93, 1000, 32767])
def test_an_unknown_api_is_refused(key: int) -> None:
    with pytest.raises(MalformedMessage, match=f"no API with key {key}") as caught:
        header_of(f"{key & 0xFFFF:04x} 0000 00000007 ffff 00")
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "0003 0009 000000",
        "0003 0009 00000007 0003 6162",
        "0003 0009 00000007 0003 616263",
        "0003 0008 00000007 0003 6162",
        "0003 0008 00000007 7fff 6162",
        "0003 0009 00000007 7fff 6162",
        "0003 0009 00000007 ffff",
        "0003 0009 00000007 ffff 01 05 02 ab",
        "0003 0009 00000007 ffff ff ff ff ff ff ff",
        "0003 0008 00000007 0002 c328",
        "0003 0009 00000007 0002 c328 00",
    ],
)
def test_a_damaged_header_is_malformed(bad: str) -> None:
    with pytest.raises(MalformedMessage):
        header_of(bad)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_header_or_malformed(data: bytes) -> None:
    try:
        header = parse_request_header(memoryview(data))
    except MalformedMessage:
        return
    assert header.body_position <= len(data)


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (HeartbeatRequest("group", 3, "member"), 3),
        (HeartbeatRequest("group", 3, "member", "instance"), 4),
        (ApiVersionsRequest("software", "1"), 3),
        (SaslHandshakeRequest("PLAIN"), 1),
    ],
)
@pytest.mark.parametrize("client_id", ["client", None])
def test_a_request_is_read_back_from_its_frame(message: Request, version: int, client_id: str | None) -> None:
    whole = encode_request(message, version, 42, client_id)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    frame = memoryview(whole)[4:]
    header = parse_request_header(frame)
    assert (header.api_key, header.api_version) == (message.API_KEY, version)
    assert (header.correlation_id, header.client_id) == (42, client_id)
    assert reader(type(message), version)(frame, header.body_position) == (message, len(frame))


def test_an_old_response_has_a_header_without_tags() -> None:
    frame = encode_response(7, HeartbeatResponse(100, ErrorCode.REBALANCE_IN_PROGRESS), 3)
    assert frame == bytes.fromhex("0000000a 00000007 00000064 001b")


def test_a_flexible_response_has_a_header_with_tags() -> None:
    frame = encode_response(7, HeartbeatResponse(100, ErrorCode.REBALANCE_IN_PROGRESS), 4)
    assert frame == bytes.fromhex("0000000c 00000007 00 00000064 001b 00")


def test_the_response_to_api_versions_has_a_header_without_tags_in_every_version() -> None:
    response = ApiVersionsResponse(0, [ApiVersion(18, 0, 4)])
    frame = encode_response(7, response, 3)
    assert frame[4:] == (7).to_bytes(4, "big") + encode(response, 3)
    assert decode_response(ApiVersionsResponse, 3, memoryview(frame)[4:]) == (7, response)


@pytest.mark.parametrize("version", [8, 9, 13])
def test_a_response_is_read_back_from_its_frame(version: int) -> None:
    frame = memoryview(encode_response(-3, ProduceResponse(throttle_time_ms=9), version))[4:]
    assert peek_correlation_id(frame) == -3
    assert decode_response(ProduceResponse, version, frame) == (-3, ProduceResponse(throttle_time_ms=9))


def test_tags_in_the_header_of_a_response_are_skipped() -> None:
    frame = memoryview(bytes.fromhex("00000007 01 00 01 ff 00000064 001b 00"))
    assert decode_response(HeartbeatResponse, 4, frame) == (7, HeartbeatResponse(100, 27))


@pytest.mark.parametrize("bad", ["", "000000", "00000007", "00000007 01", "00000007 01 00 09", "00000007 00 0000"])
def test_a_damaged_response_is_malformed(bad: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_response(HeartbeatResponse, 4, memoryview(bytes.fromhex(bad)))


def test_a_cut_correlation_id_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        peek_correlation_id(memoryview(b"\x00\x00"))


class FileRange:
    """Stands for bytes of a file: only their number is known."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length


@pytest.mark.parametrize("version", [4, 11, 12, 17])
@pytest.mark.parametrize("lengths", [(5000,), (100, 20000), (0, 127, 128)])
def test_the_length_of_a_frame_counts_what_is_sent_from_files(version: int, lengths: tuple[int, ...]) -> None:
    def response(records: list[object]) -> FetchResponse:
        partitions = [PartitionData(index, records=piece) for index, piece in enumerate(records)]
        return FetchResponse(responses=[FetchableTopicResponse("t", partitions=partitions)])

    frame = encode_response(7, response([FileRange(length) for length in lengths]), version)
    assert [len(piece) for _, piece in frame.splices] == [length for length in lengths if length]
    whole, begun = bytearray(), 0
    for position, piece in frame.splices:
        whole += frame[begun:position] + b"r" * len(piece)
        begun = position
    whole += frame[begun:]
    assert whole == encode_response(7, response([b"r" * length for length in lengths]), version)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4


@given(st.lists(st.binary(max_size=50), max_size=8), st.data())
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    splitter = FrameSplitter()
    received = []
    for begun, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += splitter.feed(stream[begun:end])
    assert received == frames


@given(st.lists(st.binary(max_size=50), max_size=8), st.data())
def test_what_is_read_right_into_a_frame_makes_the_same_frames(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    splitter = FrameSplitter()
    received = []
    position = 0
    while position < len(stream):
        room = splitter.room() if data.draw(st.booleans()) else None
        if room is None:
            count = data.draw(st.integers(1, len(stream) - position))
            received += splitter.feed(stream[position : position + count])
        else:
            count = data.draw(st.integers(1, len(room)))
            room[:count] = stream[position : position + count]
            received += splitter.filled(count)
        position += count
    assert received == frames
    assert splitter.room() is None


def test_a_frame_that_claims_to_be_huge_gets_memory_only_as_it_comes() -> None:
    splitter = FrameSplitter(frame_bytes_max=2**31 - 1)
    assert splitter.feed((LAID_OUT_BYTES_MAX - 3).to_bytes(4, "big") + b"a") == []
    assert splitter.room() is None
    assert splitter.feed(b"b") == []


def test_the_room_of_a_long_frame_is_used_again_only_when_nobody_holds_the_frame() -> None:
    def received(splitter: FrameSplitter, byte: bytes) -> memoryview:
        splitter.feed(PLACE_BYTES_MIN.to_bytes(4, "big"))
        room = splitter.room()
        assert room is not None
        room[:] = byte * len(room)
        (frame,) = splitter.filled(len(room))
        return frame

    splitter = FrameSplitter()
    held = [received(splitter, b"%d" % number) for number in range(3)]
    part = held[2][1:3]
    assert [bytes(frame[-2:]) for frame in held] == [b"00", b"11", b"22"]
    assert len({id(frame.obj) for frame in held}) == 3
    places = {id(held[1].obj)}
    held.clear()
    again = received(splitter, b"x")
    assert id(again.obj) in places
    assert bytes(part) == b"22"


def test_frames_stay_as_they_are_when_more_is_received() -> None:
    splitter = FrameSplitter()
    splitter.feed(b"\x00\x00\x00\x03a")
    (first,) = splitter.feed(b"bc\x00\x00\x00\x02d")
    (second,) = splitter.feed(b"e")
    assert (bytes(first), bytes(second)) == (b"abc", b"de")


@pytest.mark.parametrize("length", [-1, -(2**31), 101, 2**31 - 1])
def test_a_length_that_no_frame_may_have_is_refused_at_once(length: int) -> None:
    splitter = FrameSplitter(frame_bytes_max=100)
    splitter.feed(length.to_bytes(4, "big", signed=True)[:3])
    with pytest.raises(MalformedMessage, match=f"claims {length} bytes; the limit is 100"):
        splitter.feed(length.to_bytes(4, "big", signed=True)[3:])


def test_a_bad_length_behind_a_whole_frame_is_refused() -> None:
    with pytest.raises(MalformedMessage):
        FrameSplitter(frame_bytes_max=100).feed(b"\x00\x00\x00\x01a\xff\xff\xff\xff")


def test_a_batch_in_parts_makes_the_same_frame_without_being_copied() -> None:
    whole = build_batch([Record(0, 5, b"k", b"v" * 100)])
    body = memoryview(whole)[HEADER_BYTES:]
    in_parts = seal_in_parts(read_header(whole), body)
    assert bytes(in_parts) == whole
    assert len(in_parts) == len(whole)

    def request(records: object) -> ProduceRequest:
        partitions = [PartitionProduceData(0, records), PartitionProduceData(1, records)]
        return ProduceRequest(None, 1, 1000, [TopicProduceData("t", ZERO_UUID, partitions)])

    for version in (9, 12, 13):
        parts = encode_request_parts(request(in_parts), version, 7, "client")
        assert b"".join(parts) == encode_request(request(whole), version, 7, "client")
        assert sum(part is body for part in parts) == 2
