"""A workload with compactions on a disk that loses power at any operation, and what must hold when it is back.

Used by the crash test, and by the test that plants mutants and expects it to find them.
"""

from __future__ import annotations

import contextlib

from harness.compacting import keyed, records_of
from harness.logs import NOON_MS, PARTITION, check_indexes
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedCrash, SimulatedFiles
from tidelog.log.compaction import compact_now
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.key_offsets import ENTRY_BYTES
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import Offset

CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=150,
    file_delete_delay_ms=5,
    compacted=True,
    deletes_old_segments=True,
    retention_ms=250,
    delete_retention_ms=30,
    min_cleanable_dirty_ratio=0.0,
)
HOT_KEYS = 4
TURNS = 36
# So few keys fit into memory that some compactions need two passes.
KEYS_BYTES_MAX = 12 * ENTRY_BYTES

Written = dict[int, tuple[bytes, bytes | None]]


class CompactionWorkload:
    """Produces, deletes keys, flushes, compacts, lets old segments go, checkpoints, restarts; remembers what it wrote
    and what is on disk."""

    def __init__(self, seed: int) -> None:
        self.files = SimulatedFiles(seed)
        self.clock = SimulatedClock(NOON_MS)
        self.written: Written = {}
        self.flushed_end = 0

    def open(self) -> None:
        self.directories = LogDirectories(["/data"], self.files, self.clock)
        self.directories.load(lambda _: CONFIG)
        assert not self.directories.offline(), self.directories.offline()[0].failure
        assert not self.directories.directories[0].broken

    @property
    def log(self) -> PartitionLog:
        log = self.directories.get(PARTITION)
        assert log is not None
        return log

    def produce(self, turn: int) -> None:
        pairs: list[tuple[bytes, bytes | None]] = []
        for number in range(3):
            key = b"hot-%d" % ((turn * 5 + number * 7) % HOT_KEYS)
            if number == 0 and turn // 3 % 3 == 0:
                key = b"rare-%d" % turn  # Some segments keep a record for ever, of others nothing stays in the end.
            pairs.append((key, None if (turn + number) % 5 == 0 else b"%d.%d" % (turn, number) + b"." * 40))
        base = self.log.end_offset
        self.written |= {base + number: pair for number, pair in enumerate(pairs)}
        keyed(self.log, *pairs, timestamp=self.clock.now_ms())
        self.clock.advance(10)

    def compact(self) -> None:
        directory = self.directories.directories[0]
        while True:
            up_to = directory.compacted.get(PARTITION, Offset(0))
            end = compact_now(self.log, up_to, self.log.end_offset, self.clock.now_ms(), keys_bytes_max=KEYS_BYTES_MAX)
            if end <= up_to:
                return
            directory.note_compacted(PARTITION, end)

    def run(self) -> None:
        self.open()
        self.directories.create(PARTITION, CONFIG)
        for turn in range(TURNS):
            self.produce(turn)
            if turn % 12 in (4, 9):
                self.flushed_end = max(self.flushed_end, self.log.flush())
            if turn % 4 == 3:
                self.compact()
                self.directories.reap(self.clock.now_ms())
            if turn % 10 == 8:
                self.log.delete_old_segments(self.clock.now_ms(), self.log.end_offset)
            if turn == 25:
                self.directories.checkpoint()
            if turn == TURNS - 4:
                self.directories.close()
                assert not self.directories.offline()
                self.flushed_end = self.log.end_offset
                self.open()

    def check(self) -> None:
        """A table made from the log is one made from all that was written, up to some point after the last flush."""
        if not self.directories.partitions():
            assert not self.flushed_end
            return
        log = self.log
        assert log.end_offset >= self.flushed_end, "what was flushed is there"
        found = records_of(log)
        assert list(found) == sorted(found), "offsets only grow"
        for offset, record in found.items():
            assert (record.key, record.value) == self.written[offset], "an offset holds what was written there"
        left = {offset: pair for offset, pair in self.written.items() if log.start_offset <= offset < log.end_offset}
        assert table({offset: (record.key or b"", record.value) for offset, record in found.items()}) == table(left)
        bases = [segment.base_offset for segment in log.segments]
        ends = [segment.next_offset() for segment in log.segments]
        assert all(end <= following for end, following in zip(ends, bases[1:], strict=False)), "segments do not overlap"
        names = {entry.name.rpartition(".")[2] for entry in self.files.list(log.directory)}
        assert not names & {"swap", "cleaned"}, "nothing half done is left"
        check_indexes(log)
        keyed(log, (b"hot-0", b"life goes on"))
        assert records_of(log)[log.end_offset - 1].value == b"life goes on"


def newest(records: Written) -> dict[bytes, bytes | None]:
    """The newest value of each key, None when it is a tombstone."""
    return dict(records[offset] for offset in sorted(records))


def table(records: Written) -> dict[bytes, bytes]:
    """The value of each key that is not deleted."""
    return {key: value for key, value in newest(records).items() if value is not None}


def operations_of_a_run() -> int:
    workload = CompactionWorkload(0)
    workload.run()
    count = workload.files.operations
    workload.check()
    return count


def crash_and_check(crash_at: int, seed: int, *, crash_again_after: int | None = None) -> None:
    """Lose power at one operation, once more while recovering if asked, and check what is left."""
    workload = CompactionWorkload(seed)
    workload.files.crash_at = crash_at
    try:
        workload.run()
    except SimulatedCrash:
        pass
    else:
        raise AssertionError(f"operation {crash_at} never came")
    workload.files.crash()
    if crash_again_after is not None:
        workload.files.crash_at = workload.files.operations + crash_again_after
        with contextlib.suppress(SimulatedCrash):
            workload.open()
        workload.files.crash()
    workload.open()
    workload.check()
