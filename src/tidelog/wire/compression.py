"""The four codecs of record batches, compressed as Java clients expect and decompressed within a bound.

Called by `wire/records.py` alone. A codec's library is imported when its first batch comes, so a broker that only moves
bytes loads none of them. Output is never larger than what the caller allows, whatever the input claims.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Any, Final, Protocol

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.batch import Buffer


class Compression(IntEnum):
    """The codec's number in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# Decompressed in steps of this size, so that a bomb costs no more memory than the bound and one step.
STEP_BYTES: Final = 256 * 1024

# What Java's SnappyOutputStream writes: a magic, two versions, then blocks of raw snappy, each after its 32-bit length.
XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK_BYTES: Final = 32 * 1024

# Java's reader knows independent blocks only, and takes a level of 9 (Kafka's default) for its fast compressor.
LZ4_FAST_LEVEL: Final = 9
LZ4_HIGH_LEVELS: Final = (3, 12)

_BLOCK_LENGTH: Final = Struct(">i")


class Decompressor(Protocol):
    """One compressed frame being read: what zlib, lz4 and zstd have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes | None: ...

    def decompress(self, data: Any, max_length: int) -> bytes: ...


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress the records of a batch; `level` is the codec's own, None its default."""
    return CODECS[codec].compress(data, level)


def decompress(codec: int, data: Buffer, max_bytes: int) -> bytes:
    """Decompress the records of a batch, or raise MESSAGE_TOO_LARGE where they would take more than `max_bytes`."""
    found = CODECS.get(codec)
    if found is None:
        raise ProtocolError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type {codec}.")
    try:
        return found.decompress(data, max_bytes)
    except ProtocolError:
        raise
    except Exception as problem:  # Each library has its own exceptions for bytes that are not its format.
        raise ProtocolError(ErrorCode.INVALID_RECORD, f"Records are not valid {found.name}: {problem}") from problem


def _too_large(max_bytes: int) -> ProtocolError:
    return ProtocolError(ErrorCode.MESSAGE_TOO_LARGE, f"The batch decompresses to more than {max_bytes} bytes.")


def _decompress_frames(new_frame: Callable[[], Decompressor], data: Buffer, max_bytes: int) -> bytes:
    """Read frame after frame, as all of these formats may be concatenated."""
    pieces: list[bytes] = []
    total_bytes = 0
    rest: Buffer = data
    while True:
        frame = new_frame()
        while not frame.eof:
            piece = frame.decompress(rest, min(STEP_BYTES, max_bytes - total_bytes + 1))
            rest = b""  # The frame keeps what it has not used yet.
            if not piece and not frame.eof:
                raise EOFError("the data ends too early")
            total_bytes += len(piece)
            if total_bytes > max_bytes:
                raise _too_large(max_bytes)
            pieces.append(piece)
        rest = frame.unused_data or b""
        if not rest:
            return b"".join(pieces)


def _copy(data: Buffer, level: int | None) -> bytes:
    return bytes(data)


def _bounded_copy(data: Buffer, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(data)


def _gzip(data: Buffer, level: int | None) -> bytes:
    import zlib

    made = zlib.compressobj(-1 if level is None else level, wbits=31)
    return made.compress(data) + made.flush()


class _GzipFrame:
    """zlib's object keeps its unread input outside of itself; this one keeps it, as the others do."""

    def __init__(self) -> None:
        import zlib

        self._inflate = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: Any, max_length: int) -> bytes:
        return self._inflate.decompress(data or self._inflate.unconsumed_tail, max_length)


def _gunzip(data: Buffer, max_bytes: int) -> bytes:
    return _decompress_frames(_GzipFrame, data, max_bytes)


def _snappy(data: Buffer, level: int | None) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    made = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        made += _BLOCK_LENGTH.pack(len(block))
        made += block
    return bytes(made)


def _unsnappy(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if not _is_xerial(view, 0):
        return _unsnappy_block(view, max_bytes, max_bytes)  # Some clients write one raw block without any frame.
    pieces: list[bytes] = []
    total_bytes = 0
    position = 0
    while position < len(view):
        if _is_xerial(view, position):
            position += len(XERIAL_HEADER)
            length = 0
        else:
            (length,) = _BLOCK_LENGTH.unpack_from(view, position)
            position += _BLOCK_LENGTH.size
        if not 0 <= length <= len(view) - position:
            raise EOFError(f"a block of {length} bytes does not fit into the {len(view) - position} that are left")
        if length:
            piece = _unsnappy_block(view[position : position + length], max_bytes - total_bytes, max_bytes)
            total_bytes += len(piece)
            pieces.append(piece)
            position += length
    return b"".join(pieces)


def _is_xerial(view: memoryview, position: int) -> bool:
    return bytes(view[position : position + len(XERIAL_MAGIC)]) == XERIAL_MAGIC


def _unsnappy_block(block: memoryview, left_bytes: int, max_bytes: int) -> bytes:
    from cramjam import snappy

    # The length is read from the block's first bytes, before anything of that size is allocated.
    if snappy.decompress_raw_len(block) > left_bytes:
        raise _too_large(max_bytes)
    return bytes(snappy.decompress_raw(block))


def _lz4(data: Buffer, level: int | None) -> bytes:
    import lz4.frame  # type: ignore[import-untyped]

    lowest, highest = LZ4_HIGH_LEVELS
    made: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level in (None, LZ4_FAST_LEVEL) else max(lowest, min(level or 0, highest)),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return made


def _unlz4(data: Buffer, max_bytes: int) -> bytes:
    from lz4.frame import LZ4FrameDecompressor

    return _decompress_frames(LZ4FrameDecompressor, data, max_bytes)


def _zstandard() -> Any:
    import sys

    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _zstd(data: Buffer, level: int | None) -> bytes:
    made: bytes = _zstandard().compress(data, level)
    return made


def _unzstd(data: Buffer, max_bytes: int) -> bytes:
    return _decompress_frames(_zstandard().ZstdDecompressor, data, max_bytes)


@dataclass(frozen=True, slots=True)
class Codec:
    """One codec, by its name in the topic setting `compression.type`."""

    name: str
    compress: Callable[[Buffer, int | None], bytes]
    decompress: Callable[[Buffer, int], bytes]


CODECS: Final[dict[int, Codec]] = {
    Compression.NONE: Codec("uncompressed", _copy, _bounded_copy),
    Compression.GZIP: Codec("gzip", _gzip, _gunzip),
    Compression.SNAPPY: Codec("snappy", _snappy, _unsnappy),
    Compression.LZ4: Codec("lz4", _lz4, _unlz4),
    Compression.ZSTD: Codec("zstd", _zstd, _unzstd),
}
