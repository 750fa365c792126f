"""What compiled codecs write and read: defaults, nulls, tags, splices; bytes worked out by hand or by Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest
from sample_messages import (
    SOME_UUID,
    Arrays,
    Branch,
    Evolving,
    Inner,
    Leaf,
    Nullables,
    Scalars,
    Tagged,
)

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.compiler import MalformedMessage, Output, UnwritableMessage, decode, encode, reader, source, writer
from tidelog.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from tidelog.wire.messages.group_records import ClassicMemberMetadata, ClassicProtocol, ConsumerGroupMemberMetadataValue
from tidelog.wire.schema import Message

SCALARS = Scalars(
    flag=True,
    tiny=-1,
    short=2,
    port=0xFFFE,
    number=-2,
    crc=0xFFFFFFFD,
    long=3,
    ratio=1.5,
    name="tide",
    id=SOME_UUID,
    content=b"ab",
    batches=b"xyz",
)
FIXED_PART = "01 ff 0002 fffe fffffffe fffffffd 0000000000000003 3ff8000000000000"
UUID_PART = "0123456789abcdef0123456789abcdef"


def check(message: Message, version: int, spaced_hex: str) -> None:
    """The message is written as these bytes, and they are read as this message."""
    expected = bytes.fromhex(spaced_hex)
    assert encode(message, version).hex(" ") == expected.hex(" ")
    assert decode(type(message), version, expected) == message


def test_old_versions_have_lengths_of_two_and_four_bytes() -> None:
    check(SCALARS, 0, f"{FIXED_PART} 0004 74696465 {UUID_PART} 00000002 6162 00000003 78797a")


def test_flexible_versions_have_compact_lengths_and_end_with_tags() -> None:
    check(SCALARS, 1, f"{FIXED_PART} 05 74696465 {UUID_PART} 03 6162 04 78797a 00")


def test_any_byte_but_zero_is_true() -> None:
    encoded = bytearray(encode(Scalars(), 0))
    encoded[0] = 0x7F
    assert decode(Scalars, 0, encoded).flag is True


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, "ffff  ffffffff  ffffffff  ff  ffffffff  0005"),
        (2, "00  00  00  ff  00  0005  00"),
    ],
)
def test_null_is_minus_one_or_in_the_compact_form_zero(version: int, expected: str) -> None:
    check(Nullables(text=None, content=None, numbers=None, inner=None, inners=None, after=5), version, expected)


def test_a_struct_that_may_be_null_has_a_marker_before_it() -> None:
    present = Nullables(inner=Inner("a", 1))
    check(present, 2, "01  01  01  01 0261 00000001 00  01  0000  00")
    check(present, 1, "0000  00000000  00000000  01 000161 00000001  00000000  0000")
    check(present, 0, "0000  00000000  00000000  000161 00000001  00000000  0000")


@pytest.mark.parametrize("field", ["text", "content", "numbers", "inner", "inners"])
def test_null_cannot_be_written_where_the_version_does_not_allow_it(field: str) -> None:
    with pytest.raises(UnwritableMessage):
        encode(Nullables(**{field: None}), 0)


@pytest.mark.parametrize("bad", ["ffff", "0000 ffffffff", "0000 00000000 ffffffff"])
def test_null_is_malformed_where_the_version_does_not_allow_it(bad: str) -> None:
    with pytest.raises(MalformedMessage, match="may not be null"):
        decode(Nullables, 0, bytes.fromhex(bad) + bytes(100))


def test_arrays_nest() -> None:
    arrays = Arrays(
        names=["a", ""],
        longs=[1],
        blobs=[b"z"],
        branches=[Branch("b", [Leaf([True, False], [SOME_UUID], 5)], Leaf([], [], -1))],
        last="l",
    )
    branch = f"0262  02  03 0100  02 {UUID_PART}  0005  00  01 01 ffff 00  00"
    check(arrays, 2, f"03 0261 01  02 0000000000000001  02 027a  02 {branch}  026c  00")


def test_tagged_fields_with_their_default_are_not_written() -> None:
    check(Tagged(number=1, trailing="t"), 2, "00000001 0274 00")


def test_tagged_fields_are_written_by_their_number() -> None:
    tagged = Tagged(
        leader=Inner("l", 1), nodes=[Inner("n", 2)], label="x", reason=None, epoch=9, blob=b"q", maybe=Inner("m", 3)
    )
    written = [
        "00000000 01 07",
        "00 02 0278",
        "01 08 02 026e 00000002 00",
        "02 07 026c 00000001 00",
        "03 01 00",
        "ac02 08 0000000000000009",
        "ad02 02 0271",
        "ae02 08 01 026d 00000003 00",
    ]
    check(tagged, 2, " ".join(written))


def test_tagged_fields_may_come_in_any_order_among_unknown_ones() -> None:
    encoded = bytes.fromhex("00000000 01  04  63 02 abcd  ac02 08 0000000000000009  00 02 0278  ff7f 00")
    assert decode(Tagged, 1, encoded) == Tagged(epoch=9, label="x")


def test_a_field_that_is_not_tagged_yet_is_unknown_and_skipped() -> None:
    assert decode(Tagged, 1, bytes.fromhex("00000000 01  01  03 01 00")) == Tagged()


@pytest.mark.parametrize("size", ["07", "09"])
def test_a_tagged_field_must_be_as_long_as_it_says(size: str) -> None:
    with pytest.raises(MalformedMessage):
        decode(Tagged, 1, bytes.fromhex(f"00000000 01  01  ac02 {size} 0000000000000009  0000"))


def test_a_tagged_field_of_one_byte_may_be_the_very_end() -> None:
    assert decode(Tagged, 1, bytes.fromhex("00000000 01  01  ad02 01 01")) == Tagged(blob=b"")


def test_a_field_that_the_version_lacks_has_its_default() -> None:
    encoded = encode(Evolving(topics=["t"], client_id="c"), 2)
    assert decode(Evolving, 2, encoded) == Evolving(strict=-1, lenient="none", topics=["t"], client_id="c")


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (Evolving(strict=0), 2, "strict"),
        (Evolving(topics=["t"]), 1, "topics"),
        (Evolving(topic_id=SOME_UUID), 2, "topic_id"),
        (Arrays(dropped=[1]), 2, "dropped"),
    ],
)
def test_a_value_for_a_field_that_the_version_lacks_is_not_lost_silently(
    message: Message, version: int, field: str
) -> None:
    with pytest.raises(UnwritableMessage, match=f"{field} has a value") as caught:
        encode(message, version)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_value_for_an_ignorable_field_may_be_lost() -> None:
    assert encode(Evolving(lenient="something"), 2) == encode(Evolving(), 2)


def test_an_inflexible_field_keeps_its_old_form() -> None:
    check(Evolving(client_id="c"), 3, f"01 {ZERO_UUID.hex} 000163 00")
    check(Evolving(client_id=None), 3, f"01 {ZERO_UUID.hex} ffff 00")


def test_bytes_are_views_into_what_was_received() -> None:
    buffer = bytearray(encode(SCALARS, 1))
    message = decode(Scalars, 1, buffer)
    buffer[-2] = ord("!")
    assert isinstance(message.batches, memoryview)
    assert bytes(message.batches) == b"xy!"


def test_what_follows_a_message_is_ignored() -> None:
    encoded = encode(SCALARS, 0)
    assert decode(Scalars, 0, encoded + b"more") == SCALARS
    assert reader(Scalars, 0)(memoryview(b"??" + encoded + b"more"), 2) == (SCALARS, 2 + len(encoded))


def test_defaults_of_read_messages_are_not_shared() -> None:
    encoded = encode(Tagged(), 1)
    first, second = decode(Tagged, 1, encoded), decode(Tagged, 1, encoded)
    first.nodes.append(Inner())
    first.leader.number = 1
    assert second == Tagged()


class FileRange:
    """Stands for bytes of a file: only their number is known."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length


@pytest.mark.parametrize(("version", "length_bytes"), [(0, "0000012c"), (1, "ad02")])
def test_records_from_a_file_leave_only_their_length(version: int, length_bytes: str) -> None:
    out = Output()
    write = writer(Scalars, version)
    piece = FileRange(300)
    write(Scalars(batches=piece), out)
    ((position, spliced),) = out.splices
    assert spliced is piece
    assert out.spliced_bytes == 300
    assert out[:position].endswith(bytes.fromhex(length_bytes))
    in_memory = encode(Scalars(batches=b"m" * 300), version)
    assert out[:position] + b"m" * 300 + out[position:] == in_memory


def test_no_splice_is_noted_for_an_empty_file_range() -> None:
    out = Output()
    writer(Scalars, 1)(Scalars(batches=FileRange(0)), out)
    assert not out.splices
    assert out == encode(Scalars(batches=b""), 1)


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview, Output])
def test_records_may_be_any_buffer(buffer: Any) -> None:
    assert encode(Scalars(batches=buffer(b"xyz")), 1) == encode(Scalars(batches=b"xyz"), 1)


@pytest.mark.parametrize(
    "message",
    [
        Scalars(number=2**31),
        Scalars(port=-1),
        Scalars(name="x" * 32768),
        Scalars(name="\ud800"),
        Scalars(name=None),  # type: ignore[arg-type]
        Scalars(id="0123"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_its_field_cannot_be_written(message: Message) -> None:
    with pytest.raises(UnwritableMessage) as caught:
        encode(message, 0)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [-1, 2])
def test_a_version_that_is_not_declared_is_unsupported(version: int) -> None:
    for make in (reader, writer):
        with pytest.raises(ProtocolError) as caught:
            make(Scalars, version)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_codec_is_compiled_once() -> None:
    assert reader(Scalars, 1) is reader(Scalars, 1)
    assert writer(Scalars, 1) is writer(Scalars, 1)


def test_the_generated_code_can_be_printed_and_is_python() -> None:
    text = source(FetchResponse, 13)
    compile(text, "printed", "exec")
    assert [line.partition("(")[0] for line in text.splitlines() if line.startswith("def ")] == [
        "def read",
        "def write",
        "def respond",
    ]


# Written by the classes of Apache Kafka 4.2.
@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (
            ConsumerGroupMemberMetadataValue(
                client_id="c",
                client_host="h",
                subscribed_topic_names=["t"],
                rebalance_timeout_ms=5,
                classic_member_metadata=ClassicMemberMetadata(7, [ClassicProtocol("r", b"\x01\x02")]),
            ),
            0,
            "01010263026802027401000000050101000d01000000070202720301020000",
        ),
        (ConsumerGroupMemberMetadataValue(), 0, "010101010101ffffffff0100"),
        (DescribeTopicPartitionsRequest(cursor=Cursor("x", 3)), 0, "01000007d0010278000000030000"),
        (DescribeTopicPartitionsRequest(), 0, "01000007d0ff00"),
        (
            FetchRequest(cluster_id="abc", max_wait_ms=500, rack_id="r"),
            12,
            "ffffffff000001f4000000007fffffff0000000000ffffffff0101027201000404616263",
        ),
        (
            FetchRequest(replica_state=ReplicaState(4, 9)),
            17,
            "00000000000000007fffffff0000000000ffffffff01010101010d00000004000000000000000900",
        ),
    ],
)
def test_apache_kafka_writes_the_same(message: Message, version: int, expected: str) -> None:
    check(message, version, expected)
