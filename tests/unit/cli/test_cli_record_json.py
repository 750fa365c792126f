"""A record as a JSON object: what `consume` writes, `produce` reads."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.record_json import RecordInput, read_record, write_record
from tidelog.client.core.record import ConsumerRecord
from tidelog.model.ids import Offset, PartitionIndex, TopicName

CONTENT = st.none() | st.binary(max_size=20)


def record(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()
) -> ConsumerRecord:
    return ConsumerRecord(TopicName("t"), PartitionIndex(3), Offset(9), 1234, key, value, headers)


@given(CONTENT, CONTENT, st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3).map(tuple))
def test_what_comes_out_goes_in_again_unchanged(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    line = write_record(record(key, value, headers))
    assert b"\n" not in line
    assert read_record(line) == RecordInput(key, value, headers, 3, 1234)


def test_text_stays_text_and_null_is_null() -> None:
    assert json.loads(write_record(record(None, "é".encode()))) == {
        "topic": "t",
        "partition": 3,
        "offset": 9,
        "timestamp": 1234,
        "key": None,
        "value": "é",
    }


def test_only_a_value_is_needed() -> None:
    assert read_record(b'{"value": "v"}') == RecordInput(None, b"v")


@pytest.mark.parametrize("line", [b"", b"[]", b'"x"', b'{"value": 5}', b'{"value_base64": "!"}', b'{"value"'])
def test_what_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, ValueError)):
        read_record(line)
