"""A compacted log against a dict, under random appends, compactions, cuts, deletions, restarts and losses of power."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.compacting import keyed, records_of
from harness.compaction_crashes import Written, newest, table
from harness.logs import NOON_MS, PARTITION, check_indexes
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.compaction import compact_now
from tidelog.log.config import NEVER, LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.key_offsets import ENTRY_BYTES
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import Offset

KEYS = st.integers(0, 5).map(lambda number: b"key-%d" % number)
VALUES = st.one_of(st.none(), st.integers(0, 120).map(lambda size: b"v" * size))


class CompactedLogMachine(RuleBasedStateMachine):
    """The newest value of a key is never lost, whatever happened to the older ones."""

    @initialize(seed=st.integers(0, 2**32), keeps_tombstones=st.booleans())
    def begin(self, seed: int, keeps_tombstones: bool) -> None:
        self.keeps_tombstones = keeps_tombstones
        self.config = LogConfig(
            segment_bytes=800,
            index_interval_bytes=200,
            file_delete_delay_ms=10,
            compacted=True,
            deletes_old_segments=False,
            delete_retention_ms=NEVER // 2 if keeps_tombstones else 20,
            min_cleanable_dirty_ratio=0.0,
        )
        self.files = SimulatedFiles(seed)
        self.clock = SimulatedClock(NOON_MS)
        self.written: Written = {}
        self.start = 0
        # What is replicated: nothing above it is compacted, nothing below it is cut.
        self.high_watermark = 0
        self.open()
        self.directories.create(PARTITION, self.config)

    def open(self) -> None:
        self.directories = LogDirectories(["/data"], self.files, self.clock)
        self.directories.load(lambda _: self.config)
        assert not self.directories.offline()
        assert not self.directories.directories[0].broken

    @property
    def log(self) -> PartitionLog:
        log = self.directories.get(PARTITION)
        assert log is not None
        return log

    @rule(pairs=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5))
    def append(self, pairs: list[tuple[bytes, bytes | None]]) -> None:
        base = self.log.end_offset
        self.written |= {base + number: pair for number, pair in enumerate(pairs)}
        self.clock.advance(5)
        keyed(self.log, *pairs, timestamp=self.clock.now_ms())

    @rule(part=st.floats(0, 1))
    def replicate(self, part: float) -> None:
        self.high_watermark += round((self.log.end_offset - self.high_watermark) * part)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == self.log.end_offset

    @rule()
    def flush_sealed(self) -> None:
        self.log.flush_sealed()

    @rule(keys=st.integers(1, 8))
    def compact(self, keys: int) -> None:
        self.log.flush_sealed()
        directory = self.directories.directories[0]
        up_to = directory.compacted.get(PARTITION, Offset(0))
        stable = Offset(self.high_watermark)
        end = compact_now(self.log, up_to, stable, self.clock.now_ms(), keys_bytes_max=keys * ENTRY_BYTES)
        assert end <= max(self.high_watermark, up_to)
        if end > up_to:
            directory.note_compacted(PARTITION, end)

    @rule()
    def checkpoint(self) -> None:
        self.directories.checkpoint()

    @rule(part=st.floats(0, 1), prepared=st.booleans())
    def truncate(self, part: float, prepared: bool) -> None:
        end = self.log.end_offset
        offset = max(self.high_watermark + round((end - self.high_watermark) * part), self.start)
        cut = {PARTITION: Offset(offset)}
        tasks = self.directories.cut_tasks(cut) if prepared else {}
        self.directories.truncate(cut, {partition: task.run() for partition, task in tasks.items()})
        self._forget_what_is_cut()

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        self.start += round((max(self.high_watermark, self.start) - self.start) * part)
        self.log.advance_start_offset(Offset(self.start))
        self.log.delete_old_segments(self.clock.now_ms(), Offset(self.high_watermark))

    @rule(milliseconds=st.integers(0, 20))
    def reap(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.directories.reap(self.clock.now_ms())

    @rule()
    def restart(self) -> None:
        end = self.log.end_offset
        self.directories.close()
        assert not self.directories.offline()
        self.open()
        assert self.log.end_offset == end

    @rule()
    def stop_without_closing(self) -> None:
        """The process dies, the machine goes on: nothing that was written is lost."""
        end = self.log.end_offset
        self.directories.abandon()
        self.open()
        assert self.log.end_offset == end
        self._accept_start_after_crash()

    @precondition(lambda self: PARTITION in self.directories.partitions())
    @rule()
    def crash(self) -> None:
        durable = self.log.recovery_point
        self.files.crash()
        self.open()
        if PARTITION not in self.directories.partitions():
            assert durable == 0, "a flushed partition cannot vanish"
            self.directories.create(PARTITION, self.config)
        assert self.log.end_offset >= durable, "what was flushed is there"
        self._accept_start_after_crash()
        self._forget_what_is_cut()

    def _accept_start_after_crash(self) -> None:
        assert self.log.start_offset <= max(self.start, self.log.end_offset)
        self.start = self.log.start_offset

    def _forget_what_is_cut(self) -> None:
        end = self.log.end_offset
        self.start = min(self.start, end)
        self.high_watermark = min(self.high_watermark, end)
        self.written = {offset: pair for offset, pair in self.written.items() if offset < end}

    @invariant()
    def holds_the_newest_of_every_key(self) -> None:
        log = self.log
        assert log.start_offset == self.start
        found = {offset: (record.key or b"", record.value) for offset, record in records_of(log).items()}
        expected = {offset: pair for offset, pair in self.written.items() if offset >= self.start}
        assert list(found) == sorted(found)
        assert found.items() <= expected.items(), "an offset holds what was written there"
        if self.keeps_tombstones:
            assert newest(found) == newest(expected)
        assert table(found) == table(expected)
        # What may not be compacted is there, all of it.
        assert {offset for offset in expected if offset >= self.high_watermark} <= found.keys()
        check_indexes(log)


TestCompactedLogModel = pytest.mark.req("P3", "C9", "B5")(CompactedLogMachine.TestCase)
TestCompactedLogModel.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
