"""Apache Kafka's own Java clients, through its console producer and console consumer: lines of text both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drivers.corpus import Record

from harness.java import JavaTools

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
TAKE_SECONDS_MAX: Final = 60


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
    """Send lines of text; the console producer chooses partitions by key and sets the timestamps."""
    assert partition == 0, "the console producer cannot name a partition"
    keyed, with_headers = records[0].key is not None, bool(records[0].headers)
    lines = []
    for record in records:
        headers = ",".join(f"{name}:{(value or b'').decode()}" for name, value in record.headers)
        parts = [headers] if with_headers else []
        parts += [(record.key or b"").decode()] if keyed else []
        lines.append("\t".join([*parts, (record.value or b"").decode()]))
    JavaTools(bootstrap_servers).console_producer(
        *("--topic", topic, "--compression-codec", compression),
        *("--reader-property", f"parse.key={str(keyed).lower()}"),
        *("--reader-property", f"parse.headers={str(with_headers).lower()}"),
        *("--command-property", f"acks={acks}"),
        *("--command-property", f"enable.idempotence={str(idempotent).lower()}"),
        stdin="\n".join(lines) + "\n",
    )


def consume(bootstrap_servers: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Record]:
    """Read `count` records from an offset on, and check that their offsets have no holes."""
    printed = JavaTools(bootstrap_servers).console_consumer(
        *("--topic", topic, "--partition", str(partition), "--offset", str(offset)),
        *("--max-messages", str(count), "--timeout-ms", str(TAKE_SECONDS_MAX * 1000)),
        *("--formatter-property", "print.timestamp=true"),
        *("--formatter-property", "print.offset=true"),
        *("--formatter-property", "print.headers=true"),
        *("--formatter-property", "print.key=true"),
        *("--formatter-property", "null.literal=<null>"),
    )
    records: list[Record] = []
    for line in printed.splitlines():
        if not line.startswith(("CreateTime:", "LogAppendTime:")):
            continue
        time, number, headers, key, value = line.split("\t")
        assert int(number.removeprefix("Offset:")) == offset + len(records)
        records.append(
            Record(_or_null(key), _or_null(value), _headers(headers), int(time.partition(":")[2])),
        )
    assert len(records) == count, f"{topic}: {len(records)} of {count} records came:\n{printed[-2000:]}"
    return records


def _or_null(text: str) -> bytes | None:
    return None if text == "<null>" else text.encode()


def _headers(text: str) -> tuple[tuple[str, bytes | None], ...]:
    if text == "NO_HEADERS":
        return ()
    pairs = (pair.partition(":") for pair in text.split(","))
    return tuple((name, _or_null(value)) for name, _, value in pairs)
