"""Turns (message class, version) into straight-line Python functions on first use, and keeps them.

Called by `frames.py`, the broker's dispatch and whatever else stores or sends messages. The generated code can be
printed with `source`. Bytes behind a message are ignored, as Apache Kafka does: the frame says where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Any, Final, TypeVar

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.layout import has_usual_shape, is_flexible
from tidelog.wire.primitives import MalformedMessage, UnwritableMessage
from tidelog.wire.read_source import ReadSource, read_namespace
from tidelog.wire.schema import Message, Response, VersionRange
from tidelog.wire.source import Source
from tidelog.wire.usual_source import UsualReadSource, UsualWriteSource
from tidelog.wire.write_source import Frame, WriteSource, write_namespace

__all__ = [
    "MalformedMessage",
    "Output",
    "Reader",
    "Responder",
    "UnwritableMessage",
    "Writer",
    "decode",
    "encode",
    "has_flexible_header",
    "reader",
    "responder",
    "source",
    "writer",
]

API_VERSIONS_KEY: Final = 18

M = TypeVar("M", bound=Message)


class Output(bytearray):
    """Encoded bytes, with notes of what the connection sends between them straight from files."""

    # (position in these bytes, what to send there), by position; usually none.
    splices: Sequence[tuple[int, Sized]] = ()
    spliced_bytes: int = 0


Reader = Callable[[memoryview, int], tuple[M, int]]
Writer = Callable[[M, Output], None]

# From the correlation id and the response to the whole frame.
Responder = Callable[[int, M], Output]

_readers: dict[tuple[type[Message], int], Reader[Any]] = {}
_writers: dict[tuple[type[Message], int], Writer[Any]] = {}
_responders: dict[tuple[type[Message], int], Responder[Any]] = {}


def reader(message: type[M], version: int) -> Reader[M]:
    """The function that reads a message of this version at a position, and gives it and the position behind it.

    It raises MalformedMessage for bytes that are no such message. `bytes` and `records` are views into the buffer.
    """
    made = _readers.get((message, version))
    if made is None:
        made = _readers[message, version] = _compiled(_read_source(message, version), "read", message, version)
    return made


def writer(message: type[M], version: int) -> Writer[M]:
    """The function that appends a message of this version to an output.

    It raises UnwritableMessage for values that the version cannot express; the output is then of no use.
    """
    made = _writers.get((message, version))
    if made is None:
        made = _writers[message, version] = _compiled(_write_source(message, version), "write", message, version)
    return made


def responder(message: type[M], version: int) -> Responder[M]:
    """The function that makes the whole frame of a response: its length, which counts the splices, header and body."""
    made = _responders.get((message, version))
    if made is None:
        frame = Frame(has_flexible_header(message, version))
        made = _compiled(_write_source(message, version, frame), "respond", message, version)
        _responders[message, version] = made
    return made


def decode(message: type[M], version: int, buffer: bytes | bytearray | memoryview) -> M:
    """Read the message at the start of a buffer; what follows it is ignored."""
    return reader(message, version)(memoryview(buffer), 0)[0]


def encode(message: Message, version: int) -> bytes:
    """The bytes of a message that holds no file slices."""
    out = Output()
    writer(type(message), version)(message, out)
    assert not out.splices, "file slices can only be sent, not encoded"
    return bytes(out)


def source(message: type[Message], version: int) -> str:
    """The generated code of a message in one version, to read."""
    parts = [_read_source(message, version), _write_source(message, version)]
    if issubclass(message, Response):
        parts.append(_write_source(message, version, Frame(has_flexible_header(message, version))))
    return "\n\n".join(part.text() for part in parts)


def has_flexible_header(response: type[Message], version: int) -> bool:
    """Whether the header of a response has tagged fields. That of ApiVersions has not: it is read before the client
    knows what the broker speaks (KIP-511)."""
    return is_flexible(response, version) and response.API_KEY != API_VERSIONS_KEY


def _read_source(message: type[Message], version: int) -> Source:
    flexible = _flexible(message, version)
    source = Source(read_namespace())
    with source.block("def read(buffer, position):"):
        if has_usual_shape(message, version):
            source.line("begun = position")
            with source.block("try:"):
                UsualReadSource(source, message, version, flexible).emit()
            with source.block("except (IndexError, StructError, UnicodeDecodeError):"):
                source.line("pass")
            source.line("position = begun")
        with source.block("try:"):
            ReadSource(source, message, version, flexible).emit()
        with source.block("except (IndexError, StructError, UnicodeDecodeError) as error:"):
            source.line(f"raise malformed({_label(message, version)!r}, error) from None")
    return source


def _write_source(message: type[Message], version: int, frame: Frame | None = None) -> Source:
    flexible = _flexible(message, version)
    source = Source(write_namespace())
    with source.block("def respond(correlation_id, message):" if frame else "def write(message, out):"):
        with source.block("try:"):
            if frame:
                source.line(f"out = {source.constant('Output', Output)}()")
            if has_usual_shape(message, version):
                UsualWriteSource(source, message, version, flexible, frame).emit()
            WriteSource(source, message, version, flexible, frame).emit()
        with source.block("except (AttributeError, StructError, TypeError, ValueError) as error:"):
            source.line(f"raise unwritable({_label(message, version)!r}, error) from error")
    return source


def _label(message: type[Message], version: int) -> str:
    return f"{message.__name__} v{version}"


def _flexible(message: type[Message], version: int) -> bool:
    if version not in VersionRange.parse(message.VERSIONS):
        name = message.__name__
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, f"{name} has versions {message.VERSIONS}, not {version}")
    return is_flexible(message, version)


def _compiled(source: Source, name: str, message: type[Message], version: int) -> Any:
    exec(compile(source.text(), f"<{name} {_label(message, version)}>", "exec"), source.namespace)
    return source.namespace[name]
