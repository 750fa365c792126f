"""How many records one core compacts in a second: `python -m bench.micro_compaction`.

Records of 100 bytes, a tenth of them with distinct keys. CPU time is measured, so that a busy machine changes little.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from typing import Final

from tidelog.env.clock import RealClock
from tidelog.env.files import RealFiles
from tidelog.log.compaction import compact_now
from tidelog.log.config import LogConfig
from tidelog.log.open_files import OpenFiles
from tidelog.log.recovery import create_log
from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.batch import read_header
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, build_batch

PARTITION: Final = TopicPartition(TopicName("t"), PartitionIndex(0))
CONFIG: Final = LogConfig(segment_bytes=32 << 20, compacted=True, retention_ms=-1)
RECORDS_IN_BATCH: Final = 500
VALUE_BYTES: Final = 84
SEED: Final = 1


def records_per_cpu_second(records: int, compression: Compression) -> float:
    folder = tempfile.mkdtemp(prefix="tidelog-micro-")
    try:
        log = create_log(PARTITION, f"{folder}/t-0", OpenFiles(RealFiles()), RealClock(), CONFIG)
        chance = random.Random(SEED)
        now_ms = log.clock.now_ms()
        for _ in range(records // RECORDS_IN_BATCH):
            keys = [b"key-%06d" % chance.randrange(records // 10) for _ in range(RECORDS_IN_BATCH)]
            data = build_batch([Record(0, now_ms, key, b"x" * VALUE_BYTES) for key in keys], compression=compression)
            view = memoryview(bytearray(data))
            log.stage(read_header(view), view, LeaderEpoch(0))
            log.write_staged()
        log.roll()
        log.flush()
        began = time.process_time()
        compact_now(log, Offset(0), log.end_offset, log.clock.now_ms(), always=True)
        return records / (time.process_time() - began)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    records = parser.parse_args().records
    for compression in (Compression.NONE, Compression.LZ4, Compression.ZSTD):
        rate = records_per_cpu_second(records, compression)
        print(f"{compression.name.lower():>6}: {rate:,.0f} records of 100 bytes in a second of one core")


if __name__ == "__main__":
    main()
