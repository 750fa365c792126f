"""Lines as records."""

from __future__ import annotations

import os
import threading
import time

import pytest

from tidelog.cli.failures import BadInput
from tidelog.cli.line_records import LineFormat, LineRecord, lines_of


def test_a_line_is_a_value() -> None:
    assert LineFormat().read(b"a\tb", 1) == LineRecord(None, b"a\tb")


def test_a_key_ends_at_the_first_separator() -> None:
    assert LineFormat(parse_key=True, key_separator=b"::").read(b"k::v::w", 1) == LineRecord(b"k", b"v::w")
    assert LineFormat(parse_key=True).read(b"\t", 1) == LineRecord(b"", b"")


def test_headers_come_before_the_key() -> None:
    read = LineFormat(parse_key=True, parse_headers=True).read(b"h1:v1,h2:a:b\tk\tv", 1)
    assert read == LineRecord(b"k", b"v", (("h1", b"v1"), ("h2", b"a:b")))


def test_the_null_marker_stands_for_null_anywhere_but_in_a_header_s_name() -> None:
    lines = LineFormat(parse_key=True, parse_headers=True, null_marker=b"NULL")
    assert lines.read(b"NULL\tNULL\tNULL", 1) == LineRecord(None, None)
    assert lines.read(b"h:NULL\tk\tv", 1) == LineRecord(b"k", b"v", (("h", None),))
    with pytest.raises(BadInput, match="null marker"):
        lines.read(b"NULL:x\tk\tv", 1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"no separators", "No headers delimiter found on line number 7: 'no separators'"),
        (b"h:v\tno key", "No key separator found on line number 7: 'h:v\tno key'"),
        (b"h\tk\tv", "No header key separator found in pair 'h' on line number 7"),
    ],
)
def test_a_missing_separator_is_named_with_its_line(line: bytes, words: str) -> None:
    with pytest.raises(BadInput) as raised:
        LineFormat(parse_key=True, parse_headers=True).read(line, 7)
    assert str(raised.value) == words


def test_missing_separators_may_be_ignored() -> None:
    lines = LineFormat(parse_key=True, parse_headers=True, ignore_error=True)
    assert lines.read(b"only a value", 1) == LineRecord(None, b"only a value")
    assert lines.read(b"h\tk\tv", 1) == LineRecord(b"k", b"v", (("h", None),))


def test_separators_have_to_differ() -> None:
    with pytest.raises(BadInput, match=r"headers.separator and headers.key.separator may not be equal"):
        LineFormat(headers_separator=b":", headers_key_separator=b":")
    with pytest.raises(BadInput, match=r"null.marker and key.separator may not be equal"):
        LineFormat(null_marker=b"\t")


def test_lines_are_read_whole_however_they_arrive_and_idle_moments_are_told() -> None:
    reading, writing = os.pipe()

    def write() -> None:
        for part in (b"one\ntw", b"o\r\n", b"\nlast"):
            time.sleep(0.05)
            os.write(writing, part)
        os.close(writing)

    threading.Thread(target=write).start()
    found = list(lines_of(reading))
    os.close(reading)
    assert [line for line in found if line is not None] == [b"one", b"two", b"", b"last"]
    assert found[0] is None
    assert found.count(None) >= 3
