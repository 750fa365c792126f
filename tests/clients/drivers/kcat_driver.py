"""kcat, the command line client on librdkafka that Debian ships. Sends lines of text, reads anything."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Final

from drivers.corpus import Record

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS_MAX: Final = 60
# Numbers and headers on a line of their own, then key and value by their lengths: safe for any bytes in both.
FORMAT: Final = r"%o %T %K %S %h\n%k%s\n"


def run(bootstrap_servers: str, *arguments: str, stdin: bytes = b"", check: bool = True) -> bytes:
    done = subprocess.run(
        ["kcat", "-b", bootstrap_servers, *arguments], input=stdin, capture_output=True, timeout=SECONDS_MAX
    )
    if check and done.returncode != 0:
        raise AssertionError(f"kcat {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr.decode()}")
    return done.stdout if check else done.stdout + done.stderr


def produce(
    bootstrap_servers: str,
    topic: str,
    records: Sequence[Record],
    *,
    partition: int = 0,
    compression: str = "none",
    acks: str = "all",
    idempotent: bool = False,
) -> None:
    """Send lines of text. All records of a call have the same headers, and kcat sets the timestamps."""
    arguments = ["-P", "-t", topic, "-p", str(partition), "-z", compression, "-X", f"acks={acks}"]
    arguments += ["-X", f"enable.idempotence={'true' if idempotent else 'false'}"]
    keyed = records[0].key is not None
    if keyed:
        arguments += ["-K", "|"]
    for name, value in records[0].headers:
        arguments += ["-H", f"{name}={(value or b'').decode()}"]
    lines = [(record.key or b"") + b"|" + (record.value or b"") if keyed else record.value or b"" for record in records]
    run(bootstrap_servers, *arguments, stdin=b"\n".join(lines) + b"\n")


def consume(bootstrap_servers: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Record]:
    """Read `count` records from an offset on, and check that their offsets have no holes."""
    arguments = ["-C", "-q", "-t", topic, "-p", str(partition), "-o", str(offset), "-c", str(count), "-f", FORMAT]
    records = parse(run(bootstrap_servers, *arguments), offset)
    assert len(records) == count, f"{topic}: {len(records)} of {count} records came, then nothing"
    return records


def parse(printed: bytes, offset: int) -> list[Record]:
    """Read what FORMAT printed."""
    records: list[Record] = []
    position = 0
    while position < len(printed):
        end_of_line = printed.index(b"\n", position)
        number, timestamp_ms, key_size, value_size, headers = printed[position:end_of_line].split(b" ", 4)
        assert int(number) == offset + len(records)
        position = end_of_line + 1
        key, position = _take(printed, position, int(key_size))
        value, position = _take(printed, position, int(value_size))
        position += 1
        pairs = [pair.partition(b"=") for pair in headers.split(b",")] if headers else []
        records.append(
            Record(key, value, tuple((name.decode(), content) for name, _, content in pairs), int(timestamp_ms))
        )
    return records


def _take(printed: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, position
    return printed[position : position + size], position + size
