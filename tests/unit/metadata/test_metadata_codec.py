from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.metadata.codec import NEWEST, RECORD_CLASSES, decode_record, encode_record
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages import metadata_records as wire

TOPIC_ID = UUID("0123456789abcdef0123456789abcdef")


def test_a_topic_record_has_the_bytes_that_apache_kafka_writes() -> None:
    # Frame version 1, kind 2, version 0; compact string "ab"; the id; no tagged fields.
    expected = b"\x01\x02\x00" + b"\x03ab" + TOPIC_ID.bytes + b"\x00"

    assert encode_record(wire.TopicRecord(name="ab", topic_id=TOPIC_ID)) == expected


@pytest.mark.parametrize("declared", RECORD_CLASSES.values(), ids=lambda declared: declared.__name__)
def test_each_kind_of_record_is_read_back_as_written(declared: type[wire.Message]) -> None:
    assert decode_record(encode_record(declared())) == declared()


def test_records_are_written_in_their_newest_version() -> None:
    assert NEWEST[wire.PartitionRecord] == 2
    assert NEWEST[wire.RegisterBrokerRecord] == 3


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x01\x02", id="cut within the frame"),
        pytest.param(b"\x00\x02\x00", id="another frame version"),
        pytest.param(b"\x01\x7e\x00", id="unknown kind"),
        pytest.param(b"\x01\x02\x09", id="unknown version"),
    ],
)
def test_bytes_that_are_no_record_are_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_record(value)

    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
