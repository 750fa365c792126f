"""A workload for a log on a simulated disk, and what must hold after the power was lost anywhere in it."""

from __future__ import annotations

import contextlib
from typing import Final

from harness.logs import NOON_MS, PARTITION, batch_of, check_indexes, stage, values_of
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedCrash, SimulatedFiles
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import Offset
from tidelog.wire.records import read_records

CONFIG: Final = LogConfig(segment_bytes=900, index_interval_bytes=200, file_delete_delay_ms=5, retention_ms=300)


class NoSuchOperation(Exception):
    """The workload ended before the power was to be lost."""


class LogWorkload:
    """Produces, rolls, flushes, checkpoints, deletes, truncates, restarts; remembers what it was promised."""

    def __init__(self, seed: int) -> None:
        self.files = SimulatedFiles(seed)
        self.clock = SimulatedClock(NOON_MS)
        self.written: dict[int, bytes] = {}
        self.flushed: dict[int, bytes] = {}

    def open(self) -> None:
        self.directories = LogDirectories(["/data"], self.files, self.clock)
        self.directories.load(lambda _: CONFIG)
        assert not self.directories.offline()

    @property
    def log(self) -> PartitionLog:
        log = self.directories.get(PARTITION)
        assert log is not None
        return log

    def produce(self, turn: int) -> None:
        """One loop turn: several batches, one write."""
        for number in range(3):
            value = b"%d-%d" % (turn, number) + b"." * (40 * number)
            batch = batch_of([value, value], timestamp=self.clock.now_ms(), producer=(7, 0, 6 * turn + 2 * number))
            base = stage(self.log, batch, epoch=turn // 5)
            # It may get to the disk from here on, promised or not.
            self.written |= {base: value, base + 1: value}
        self.log.write_staged()
        self.clock.advance(20)

    def run(self) -> None:
        self.open()
        self.directories.create(PARTITION, CONFIG)
        for turn in range(24):
            self.produce(turn)
            if turn % 4 == 1:
                end = self.log.flush()
                self.flushed = {offset: value for offset, value in self.written.items() if offset < end}
            if turn % 6 == 3:
                self.directories.checkpoint()
            if turn % 8 == 5:
                self.log.delete_old_segments(self.clock.now_ms(), self.log.end_offset)
                self.directories.reap(self.clock.now_ms())
            if turn == 14:
                # What is cut was on the disk, and the checkpoint says so.
                self.log.flush()
                self.directories.checkpoint()
                cut = Offset(self.log.end_offset - 20)
                self.flushed = {offset: value for offset, value in self.flushed.items() if offset < cut}
                self.directories.truncate({PARTITION: cut})
            if turn == 19:
                self.directories.close()
                assert not self.directories.offline()
                self.flushed = dict(self.written)
                self.open()

    def check(self) -> None:
        """What was flushed and not deleted is there, what is there was written, without a gap, and look-ups agree."""
        if not self.directories.partitions():
            assert not self.flushed
            return
        log = self.log
        found = values_of(log)
        assert sorted(found) == list(range(log.start_offset, log.end_offset))
        assert log.end_offset > max(self.flushed, default=-1)
        for offset, value in found.items():
            assert value == self.written[offset] or offset not in self.flushed
        assert all(found[offset] == value for offset, value in self.flushed.items() if offset >= log.start_offset)
        check_indexes(log)
        assert log.offset_for_timestamp(0) == next(iter(_timestamps(log)), None)
        self.log.flush()
        stage(log, batch_of([b"life goes on"]), epoch=100)
        log.write_staged()
        assert values_of(log)[log.end_offset - 1] == b"life goes on"


def _timestamps(log: PartitionLog) -> list[tuple[int, int]]:
    part = log.read(log.start_offset, 1, log.end_offset)
    if part is None:
        return []
    return [
        (record.timestamp, record.offset) for record in read_records(part.read()) if record.offset >= log.start_offset
    ]


def operations_of_workload() -> int:
    """How many operations change the disk in one run."""
    workload = LogWorkload(0)
    workload.run()
    operations = workload.files.operations
    workload.check()
    return operations


def crash_and_check(crash_at: int, seed: int, *, crash_again_after: int | None = None) -> None:
    """Lose power at this operation, and again during recovery if asked to; raises for what is lost or unreadable."""
    workload = LogWorkload(seed)
    workload.files.crash_at = crash_at
    try:
        workload.run()
    except SimulatedCrash:
        workload.files.crash()
    else:
        raise NoSuchOperation(crash_at)
    if crash_again_after is not None:
        workload.files.crash_at = workload.files.operations + crash_again_after
        with contextlib.suppress(SimulatedCrash):
            workload.open()
        workload.files.crash()
    workload.open()
    workload.check()
