"""One record as it stands in a batch, made when it is handed to a producer. The hottest function of the client."""

from __future__ import annotations

from typing import Final

from tidelog.client.core.record import Headers

VARINT_TABLE_SIZE: Final = 1 << 14
# Length, attributes, both deltas, key length, value length and header count, at most.
RECORD_OVERHEAD_BYTES: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
HEADER_OVERHEAD_BYTES: Final = 10


def _encoded(zigzag: int) -> bytes:
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


# The numbers that nearly every record is made of: lengths and offsets below 2^14.
_TABLE: Final = [_encoded(number << 1) for number in range(VARINT_TABLE_SIZE)]
_join = b"".join


def varint(number: int) -> bytes:
    """Zigzag, then seven bits a byte."""
    if 0 <= number < VARINT_TABLE_SIZE:
        return _TABLE[number]
    return _encoded(number << 1 if number >= 0 else ~(number << 1))


def encode_record(
    offset_delta: int, timestamp_delta_ms: int, key: bytes | None, value: bytes | None, headers: Headers
) -> bytes:
    """The bytes of a record, its length in front."""
    if not headers and value is not None and offset_delta < VARINT_TABLE_SIZE:
        value_length = len(value)
        key_length = 0 if key is None else len(key)
        if key_length < VARINT_TABLE_SIZE > value_length:
            time = (
                _TABLE[timestamp_delta_ms]
                if 0 <= timestamp_delta_ms < VARINT_TABLE_SIZE
                else varint(timestamp_delta_ms)
            )
            offset = _TABLE[offset_delta]
            value_size = _TABLE[value_length]
            length = 2 + len(time) + len(offset) + len(value_size) + value_length
            if key is None:
                length += 1
                size = _TABLE[length] if length < VARINT_TABLE_SIZE else varint(length)
                return _join((size, b"\x00", time, offset, b"\x01", value_size, value, b"\x00"))
            key_size = _TABLE[key_length]
            length += len(key_size) + key_length
            size = _TABLE[length] if length < VARINT_TABLE_SIZE else varint(length)
            return _join((size, b"\x00", time, offset, key_size, key, value_size, value, b"\x00"))
    fields = [b"\x00", varint(timestamp_delta_ms), varint(offset_delta)]
    fields += (b"\x01",) if key is None else (varint(len(key)), key)
    fields += (b"\x01",) if value is None else (varint(len(value)), value)
    fields.append(varint(len(headers)))
    for name, content in headers:
        encoded_name = name.encode("utf-8", "surrogateescape")
        fields += (varint(len(encoded_name)), encoded_name)
        fields += (b"\x01",) if content is None else (varint(len(content)), content)
    body = _join(fields)
    return varint(len(body)) + body


def size_bound(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """What a record takes in a batch before compression, never too little."""
    size = RECORD_OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + len(name.encode("utf-8", "surrogateescape")) + len(content or b"")
    return size
