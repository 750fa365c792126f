"""A record as a JSON object, one to a line, written by `tidelog consume` and read by `tidelog produce`.

Text stays text; bytes that are no UTF-8 go into `…_base64`, so that what comes out can go in again unchanged.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from tidelog.client.core.record import ConsumerRecord

Headers = tuple[tuple[str, bytes | None], ...]


class JsonHeader(msgspec.Struct, omit_defaults=True):
    """One header."""

    key: str
    value: str | None = None
    value_base64: str | None = None


class JsonRecord(msgspec.Struct, omit_defaults=True):
    """A record; only `value` is expected of those who write one by hand."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None
    headers: list[JsonHeader] = []


class RecordInput(NamedTuple):
    """What a producer is given."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def write_record(record: ConsumerRecord) -> bytes:
    """The line of a record, without its end. `key` and `value` are always there."""
    line: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **_field("key", record.key),
        **_field("value", record.value),
    }
    if record.headers:
        line["headers"] = [{"key": _text(name), **_field("value", value)} for name, value in record.headers]
    return msgspec.json.encode(line)


def read_record(line: bytes) -> RecordInput:
    """The record in a line; MsgspecError or ValueError when there is none. Topic and offset are left aside."""
    record = msgspec.json.decode(line, type=JsonRecord)
    headers = tuple((header.key, _bytes(header.value, header.value_base64)) for header in record.headers)
    return RecordInput(
        _bytes(record.key, record.key_base64),
        _bytes(record.value, record.value_base64),
        headers,
        record.partition,
        record.timestamp,
    )


def _field(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def _text(name: str) -> str:
    """A header's name whose bytes are no UTF-8 cannot be in JSON: what is wrong in it is replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _bytes(text: str | None, encoded: str | None) -> bytes | None:
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    return None if text is None else text.encode()
