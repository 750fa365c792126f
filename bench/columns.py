"""Record batches to columns and back, on one core: `python -m bench.micro --columns`.

The smallest of many runs, in processor time, so that other work on the machine changes little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table

from tidelog.wire.columns.decode import decode
from tidelog.wire.columns.encode import Rows, encode
from tidelog.wire.columns.fields import COMPILED
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, build_batch, read_records

RUNS: Final = 7
SOME_COLUMNS: Final = ("offset", "timestamp", "key", "value")
BATCH_BYTES: Final = 1_000_000
BATCHES_FETCHED: Final = 4
BYTES: Final = 20_000_000
# (bytes of a value, with keys, codec): the cases that are shown.
CASES: Final = (
    (100, False, Compression.NONE),
    (100, True, Compression.NONE),
    (100, True, Compression.ZSTD),
    (1000, False, Compression.NONE),
)


def best_s(work: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(RUNS):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def rows_of(record_bytes: int, keys: bool) -> Rows:
    count = BYTES // record_bytes
    generator = np.random.default_rng(0)
    lengths = generator.integers(record_bytes * 9 // 10, record_bytes * 11 // 10 + 1, count)
    bounds = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    letters = generator.integers(65, 91, int(bounds[-1]), dtype=np.uint8)
    values = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(letters)])
    names = pa.array([b"key-%d" % (number % 10_000) for number in range(count)]) if keys else None
    return Rows(names, values, 1_700_000_000_000 + np.arange(count, dtype=np.int64) // 100)


def measure(record_bytes: int, keys: bool, codec: Compression, compiled: bool) -> list[str]:
    rows = rows_of(record_bytes, keys)
    count = len(rows)

    def written() -> list[bytearray]:
        bodies = encode(rows, batch_bytes=BATCH_BYTES, compression=codec, compiled=compiled)
        return [body.seal() for body in bodies]

    def read(columns: Sequence[str]) -> None:
        for fetched in fetches:
            decode(fetched, columns=columns, compiled=compiled)

    batches = written()
    # As readers get them: some batches with each answer.
    fetches = [b"".join(batches[start : start + BATCHES_FETCHED]) for start in range(0, len(batches), BATCHES_FETCHED)]
    encoding_s = best_s(lambda: sum(map(len, written())))
    some_s, value_s = best_s(lambda: read(SOME_COLUMNS)), best_s(lambda: read(["value"]))
    rates = [f"{count / seconds / 1e6:.1f}" for seconds in (encoding_s, some_s, value_s)]
    return [*rates, f"{BYTES / some_s / 1e9:.2f}"]


def measure_records(record_bytes: int) -> list[str]:
    """The same one record at a time, for comparison."""
    count = BATCH_BYTES // record_bytes
    records = [Record(0, 0, None, bytes(record_bytes)) for _ in range(count)]
    batch = build_batch(records)
    encoding_s, decoding_s = best_s(lambda: build_batch(records)), best_s(lambda: read_records(batch))
    rate = f"{count / decoding_s / 1e6:.1f}"
    return [f"{count / encoding_s / 1e6:.1f}", rate, rate, f"{BATCH_BYTES / decoding_s / 1e9:.2f}"]


def show() -> None:
    table = Table(title="Millions of records a second on one core, batches of 1 MB; last: decode")
    for name in ("", "encode", "decode", "value", "GB/s"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for compiled in (True, False) if COMPILED else (False,):
        for record_bytes, keys, codec in CASES:
            what = f"{record_bytes:,} bytes{', keys' if keys else ''}{f', {codec.name.lower()}' if codec else ''}"
            way = "compiled" if compiled else "numpy"
            table.add_row(f"{what} · {way}", *measure(record_bytes, keys, codec, compiled))
    table.add_row("100 bytes · objects", *measure_records(100))
    Console().print(table)
