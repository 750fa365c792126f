"""Records whose timestamps count from another time: what a batch needs that gets its delete horizon (KIP-534).

Called by `log/batch_filter.py`. All other bytes of the records stay as they are.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tidelog.wire.batch import COMPRESSION_MASK, HEADER_BYTES, BatchHeader, Buffer
from tidelog.wire.keys import kernel
from tidelog.wire.keys.compiled import COMPILED
from tidelog.wire.records import read_records, rebuild_batch, seal_batch

# A timestamp of ten bytes instead of one, and a length that takes four more.
GROWTH_BYTES_MAX: Final = 13


def rebase(
    records: Buffer, records_count: int, header: BatchHeader, base_timestamp: int, *, compiled: bool = COMPILED
) -> Buffer:
    """Some records of a batch, not compressed and known to be whole, as if the batch had another base timestamp."""
    if not compiled:
        plain = msgspec.structs.replace(
            header, attributes=header.attributes & ~COMPRESSION_MASK, records_count=records_count
        )
        read = read_records(seal_batch(plain, records), check_crc=False)
        return memoryview(rebuild_batch(plain, read, delete_horizon_ms=base_timestamp))[HEADER_BYTES:]
    is_fixed = header.is_log_append_time
    out = bytearray(len(records) + records_count * GROWTH_BYTES_MAX)
    shift_ms = base_timestamp - (header.max_timestamp if is_fixed else header.base_timestamp)
    return memoryview(out)[: kernel.rebase(records, shift_ms, is_fixed, out)]
