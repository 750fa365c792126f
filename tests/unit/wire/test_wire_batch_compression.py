"""Compression: what we write and read, and that no input makes us allocate more than the caller allows."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from struct import pack

import pytest
from cramjam import snappy

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.compression import CODECS, STEP_BYTES, XERIAL_BLOCK_BYTES, XERIAL_HEADER, compress, decompress
from tidelog.wire.compression import Compression as C

REAL_CODECS = [C.GZIP, C.SNAPPY, C.LZ4, C.ZSTD]
MIXED = bytes(range(256)) * 100 + bytes(100_000) + b"text of a record " * 5000


@pytest.mark.parametrize("codec", list(C))
@pytest.mark.parametrize("size", [0, 1, 100, XERIAL_BLOCK_BYTES, STEP_BYTES + 1, 600_000])
def test_what_is_compressed_comes_back(codec: C, size: int) -> None:
    data = (MIXED * 4)[:size]
    assert decompress(codec, memoryview(compress(codec, memoryview(data))), size) == data


@pytest.mark.parametrize("codec", list(C))
def test_one_byte_more_than_allowed_is_refused(codec: C) -> None:
    with pytest.raises(ProtocolError) as refused:
        decompress(codec, compress(codec, MIXED), len(MIXED) - 1)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_bomb_costs_no_more_memory_than_the_bound(codec: C) -> None:
    bomb = compress(codec, bytes(64 * 1024 * 1024))
    decompress(codec, compress(codec, b""), 0)  # The library is loaded before memory is counted.
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError) as refused:
            decompress(codec, bomb, 1_000_000)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert peak_bytes < 1_000_000 + 3 * STEP_BYTES + len(bomb)


def test_a_snappy_block_that_claims_4_gib_is_refused_before_anything_is_allocated() -> None:
    for bomb in (b"\xff\xff\xff\xff\x0f\x00", XERIAL_HEADER + pack(">i", 6) + b"\xff\xff\xff\xff\x0f\x00"):
        with pytest.raises(ProtocolError) as refused:
            decompress(C.SNAPPY, bomb, 1_000_000)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.99])
def test_data_that_is_cut_off_is_an_invalid_record(codec: C, kept: float) -> None:
    whole = compress(codec, MIXED)
    with pytest.raises(ProtocolError) as refused:
        decompress(codec, whole[: int(len(whole) * kept)], len(MIXED))
    assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_data_of_another_codec_is_an_invalid_record(codec: C) -> None:
    for other in REAL_CODECS:
        if other is not codec:
            with pytest.raises(ProtocolError) as refused:
                decompress(codec, compress(other, MIXED), len(MIXED))
            assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_frames_one_behind_the_other_are_read_as_one(codec: C) -> None:
    assert decompress(codec, compress(codec, b"first") + compress(codec, b"second"), 100) == b"firstsecond"


@pytest.mark.parametrize(("codec", "levels"), [(C.GZIP, range(1, 10)), (C.LZ4, range(1, 18)), (C.ZSTD, range(-7, 23))])
def test_every_level_that_kafka_allows_works(codec: C, levels: range) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, MIXED[:10_000], level), 10_000) == MIXED[:10_000]


def test_a_raw_snappy_block_without_a_frame_is_read() -> None:
    assert decompress(C.SNAPPY, bytes(snappy.compress_raw(MIXED)), len(MIXED)) == MIXED


def test_snappy_is_framed_as_java_frames_it() -> None:
    made = compress(C.SNAPPY, MIXED)
    assert made[:16] == bytes.fromhex("82534e415050590000000001 00000001")
    first_length = int.from_bytes(made[16:20])
    assert bytes(snappy.decompress_raw(made[20 : 20 + first_length])) == MIXED[:XERIAL_BLOCK_BYTES]


def test_lz4_is_framed_as_java_reads_it() -> None:
    flags = compress(C.LZ4, MIXED)[4]
    assert flags >> 6 == 1, "version"
    assert flags & 0x20, "Java reads independent blocks only"
    assert not flags & 0x08, "no content size"


@pytest.mark.parametrize("length", [-1, 2**31 - 1, 100])
def test_a_snappy_block_beyond_the_end_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError) as refused:
        decompress(C.SNAPPY, XERIAL_HEADER + pack(">i", length) + b"abc", 1000)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_an_unknown_codec_is_unsupported() -> None:
    with pytest.raises(ProtocolError) as refused:
        decompress(5, b"", 10)
    assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_codecs_have_the_names_of_the_topic_setting() -> None:
    assert {number: codec.name for number, codec in CODECS.items()} == {
        0: "uncompressed",
        1: "gzip",
        2: "snappy",
        3: "lz4",
        4: "zstd",
    }


def test_importing_loads_no_codec() -> None:
    program = "import sys, tidelog.wire.records; print({'zlib', 'cramjam', 'lz4', 'backports.zstd'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "set()"
