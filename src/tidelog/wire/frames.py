"""Frames: a length, a header, a message. Takes and gives bytes, and never touches a socket.

The broker parses request headers and encodes responses with it, clients the reverse.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from struct import error as StructError
from typing import Any, Final, TypeVar

import msgspec

from tidelog.wire.apis import flexible_from
from tidelog.wire.batch import BatchInParts, Buffer
from tidelog.wire.compiler import Output, Responder, has_flexible_header, reader, responder, writer
from tidelog.wire.primitives import SHORT_STRING_BYTES_MAX, MalformedMessage, StringReaders, skip_tags
from tidelog.wire.schema import Request, Response

LENGTH_BYTES: Final = 4
# socket.request.max.bytes of Apache Kafka.
FRAME_BYTES_MAX: Final = 100 * 1024 * 1024
# Longer frames get memory as their bytes come: a length is quickly claimed.
LAID_OUT_BYTES_MAX: Final = 64 * 1024 * 1024
# Room of long frames that is used again: one frame is read while the next comes.
PLACES_MAX: Final = 2
PLACE_BYTES_MIN: Final = 256 * 1024
PLACE_BYTES_MAX: Final = 16 * 1024 * 1024

R = TypeVar("R", bound=Response)

_LENGTH: Final = Struct(">i")
_REQUEST_HEADER: Final = Struct(">hhih")
_CLIENT_ID_POSITION: Final = _REQUEST_HEADER.size
_client_ids: Final = StringReaders("client id", compact=False, behind="")
_client_ids_and_tags: Final = StringReaders("client id", compact=False, behind="B")
_flexible_from: Final[dict[int, int]] = {}
# Two plain look-ups are quicker than one with a tuple made for it.
_responders: Final[dict[type[Response], dict[int, Responder[Any]]]] = {}


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """Who asks for what in which version, and where in the frame the request itself begins."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def parse_request_header(frame: memoryview) -> RequestHeader:
    """Read the header of a frame without its length. MalformedMessage for an unknown API, too: it has no answer.

    Whether the API has the version is not checked here, so that ApiVersions of any version can be answered (KIP-511).
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
        first_flexible = _flexible_from.get(api_key)
        if first_flexible is None:
            first_flexible = _flexible_from[api_key] = flexible_from(api_key)
        if api_version < first_flexible:
            client_id, position = _client_id(frame, length)
            return RequestHeader(api_key, api_version, correlation_id, client_id, position)
        if 0 <= length <= SHORT_STRING_BYTES_MAX:
            raw, tags = _client_ids_and_tags[length](frame, _CLIENT_ID_POSITION)
            client_id = raw.decode()
            position = _CLIENT_ID_POSITION + 1 + length
        else:
            client_id, position = _client_id(frame, length)
            tags = frame[position]
            position += 1
        if tags:
            position = skip_tags(frame, position, tags)
        return RequestHeader(api_key, api_version, correlation_id, client_id, position)
    except (IndexError, StructError, UnicodeDecodeError):
        raise MalformedMessage("the request header is cut short or its client id is not UTF-8") from None


def _client_id(frame: memoryview, length: int) -> tuple[str | None, int]:
    """The client id keeps its old encoding in every header version (KIP-482)."""
    if length < 0:
        return None, _CLIENT_ID_POSITION
    end = _CLIENT_ID_POSITION + length
    if length <= SHORT_STRING_BYTES_MAX:
        return _client_ids[length](frame, _CLIENT_ID_POSITION)[0].decode(), end
    if end > len(frame):
        raise MalformedMessage("the client id reaches behind the end of the frame")
    return frame[_CLIENT_ID_POSITION:end].tobytes().decode(), end


def encode_response(correlation_id: int, message: Response, version: int) -> Output:
    """A whole frame. Its length counts what will be sent from files at the splices."""
    kind = type(message)
    try:
        respond = _responders[kind][version]
    except KeyError:
        respond = _responders.setdefault(kind, {})[version] = responder(kind, version)
    return respond(correlation_id, message)


def encode_request(message: Request, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A whole frame."""
    out = _request(message, version, correlation_id, client_id)
    assert not out.splices, "requests are sent from memory"
    return bytes(out)


def _request(message: Request, version: int, correlation_id: int, client_id: str | None) -> Output:
    raw = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(raw)
    flexible = version >= flexible_from(message.API_KEY)
    out = Output(LENGTH_BYTES)
    out += _REQUEST_HEADER.pack(message.API_KEY, version, correlation_id, length)
    out += raw + b"\x00" if flexible else raw
    writer(type(message), version)(message, out)
    _LENGTH.pack_into(out, 0, len(out) + out.spliced_bytes - LENGTH_BYTES)
    return out


def encode_request_parts(message: Request, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """A whole frame as parts to be sent one behind the other: a batch that is in parts itself is not copied."""
    out = _request(message, version, correlation_id, client_id)
    if not out.splices:
        return [out]
    parts: list[Buffer] = []
    begun = 0
    view = memoryview(out)
    for position, piece in out.splices:
        assert isinstance(piece, BatchInParts), piece
        parts += (view[begun:position], piece.header, piece.body)
        begun = position
    parts.append(view[begun:])
    return parts


def peek_correlation_id(frame: memoryview) -> int:
    """Which request a response frame answers."""
    try:
        return int(_LENGTH.unpack_from(frame)[0])
    except StructError:
        raise MalformedMessage("the response header is cut short") from None


def decode_response(message: type[R], version: int, frame: memoryview) -> tuple[int, R]:
    """Read a response frame without its length; gives the correlation id and the response."""
    try:
        (correlation_id,) = _LENGTH.unpack_from(frame)
        position = _LENGTH.size
        if has_flexible_header(message, version):
            tags = frame[position]
            position += 1
            if tags:
                position = skip_tags(frame, position, tags)
    except (IndexError, StructError):
        raise MalformedMessage("the response header is cut short") from None
    return correlation_id, reader(message, version)(frame, position)[0]


class FrameSplitter:
    """Cuts what a connection received into frames."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._pending = bytearray()
        # A frame of which the length is known and not all has come: its place as a whole, and how much of it is there.
        self._long: memoryview | None = None
        self._long_end = 0
        self._places: deque[bytearray] = deque(maxlen=PLACES_MAX)

    def feed(self, data: bytes) -> list[memoryview]:
        """Add bytes; gives the frames that are now whole, without their lengths.

        The frames are views, and stay what they are for as long as they are held. MalformedMessage for a length that no
        frame may have, as soon as it is seen: nothing behind it can be read.
        """
        room = self.room()
        if room is not None:
            count = min(len(room), len(data))
            room[:count] = data[:count]
            frames = self.filled(count)
            return frames + self.feed(data[count:]) if count < len(data) else frames
        pending: bytes | bytearray = data
        if self._pending:
            self._pending += data
            pending = self._pending
        end = self._frame_end(pending, 0)
        if end > len(pending):
            if not self._lay_out(memoryview(pending), end) and pending is data:
                self._pending += data
            return []
        view = memoryview(pending)
        frames = []
        begun = 0
        while end <= len(pending):
            frames.append(view[begun + LENGTH_BYTES : end])
            begun = end
            end = self._frame_end(pending, begun)
        # A new buffer: the frames hold on to the old one.
        self._pending = bytearray()
        if not self._lay_out(view[begun:], end - begun):
            self._pending += view[begun:]
        return frames

    def room(self) -> memoryview | None:
        """Where the rest of a frame belongs that has begun to come, for who can read right into it; see `filled`."""
        return None if self._long is None else self._long[self._long_end :]

    def filled(self, count: int) -> list[memoryview]:
        """So many bytes are in the room; the frame, if that was all of it."""
        assert self._long is not None
        self._long_end += count
        if self._long_end < len(self._long):
            return []
        whole, self._long = self._long, None
        return [whole]

    def _lay_out(self, begun: memoryview, size_bytes: int) -> bool:
        """Make room for the rest of a frame, length included, so that no byte of it is moved twice. False: not now.

        Not before the length is known, and not for a frame of which only the length shows that it is huge.
        """
        if len(begun) < LENGTH_BYTES or size_bytes > LAID_OUT_BYTES_MAX:
            return False
        self._long = self._place(size_bytes - LENGTH_BYTES)
        self._long_end = len(begun) - LENGTH_BYTES
        self._long[: self._long_end] = begun[LENGTH_BYTES:]
        self._pending = bytearray()
        return True

    def _place(self, size_bytes: int) -> memoryview:
        """Room for a frame: that of an earlier one, if nobody holds it any more. New room has to be cleared first."""
        if not PLACE_BYTES_MIN <= size_bytes <= PLACE_BYTES_MAX:
            return memoryview(bytearray(size_bytes))
        for place in self._places:
            if len(place) >= size_bytes and _is_free(place):
                return memoryview(place)[:size_bytes]
        # Frames that are nearly as long fit, too.
        place = bytearray(-(-size_bytes // PLACE_BYTES_MIN) * PLACE_BYTES_MIN)
        self._places.append(place)
        return memoryview(place)[:size_bytes]

    def _frame_end(self, pending: bytes | bytearray, begun: int) -> int:
        """Where the frame ends, or some place that has not been received yet."""
        if len(pending) < begun + LENGTH_BYTES:
            return begun + LENGTH_BYTES
        (length,) = _LENGTH.unpack_from(pending, begun)
        if not 0 <= length <= self._frame_bytes_max:
            raise MalformedMessage(f"a frame claims {length} bytes; the limit is {self._frame_bytes_max}")
        return begun + LENGTH_BYTES + int(length)


def _is_free(place: bytearray) -> bool:
    """Whether nobody has a view of it: only then Python lets it grow."""
    try:
        place.append(0)
    except BufferError:
        return False
    del place[-1]
    return True
