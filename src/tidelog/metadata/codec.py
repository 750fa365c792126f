"""A metadata record <-> the value of a record in the metadata log, in the frame that Kafka's tools read (KIP-631).

The frame is three unsigned varints, then the message: frame version, kind of record, version of the message.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.compiler import Output, decode, writer
from tidelog.wire.messages import metadata_records
from tidelog.wire.primitives import read_uvarint, uvarint
from tidelog.wire.schema import Message, VersionRange

FRAME_VERSION: Final = 1

RECORD_CLASSES: Final[dict[int, type[Message]]] = {
    declared.API_KEY: declared
    for declared in vars(metadata_records).values()
    if isinstance(declared, type) and issubclass(declared, Message) and declared.API_KEY >= 0
}

# Every version that we may run with knows the newest form of every record, so that is the one we write.
NEWEST: Final[dict[type[Message], int]] = {
    declared: VersionRange.parse(declared.VERSIONS).last for declared in RECORD_CLASSES.values()
}

_PREFIXES: Final = {
    declared: uvarint(FRAME_VERSION) + uvarint(declared.API_KEY) + uvarint(version)
    for declared, version in NEWEST.items()
}


def encode_record(record: Message) -> bytes:
    """The framed bytes of a record."""
    declared = type(record)
    out = Output(_PREFIXES[declared])
    writer(declared, NEWEST[declared])(record, out)
    return bytes(out)


def decode_record(value: bytes | bytearray | memoryview) -> Message:
    """The record in a frame. CORRUPT_MESSAGE when the bytes are none that we know."""
    view = memoryview(value)
    try:
        frame_version, position = read_uvarint(view, 0)
        kind, position = read_uvarint(view, position)
        version, position = read_uvarint(view, position)
    except IndexError:
        raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, "A metadata record ends within its frame.") from None
    if frame_version != FRAME_VERSION:
        raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"Metadata frame version {frame_version} is unknown.")
    declared = RECORD_CLASSES.get(kind)
    if declared is None:
        raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"Metadata record kind {kind} is unknown.")
    if version not in VersionRange.parse(declared.VERSIONS):
        raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"{declared.__name__} version {version} is unknown.")
    return decode(declared, version, view[position:])
