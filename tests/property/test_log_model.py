"""The log against a dict, under random appends, rolls, cuts, flushes, deletions, restarts and losses of power."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.logs import NOON_MS, PARTITION, batch_of, check_indexes, stage, values_of
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.partition import PartitionLog
from tidelog.log.producer_entry import ProducerEntry
from tidelog.model.ids import Offset, ProducerId

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=250, file_delete_delay_ms=10)
PRODUCER = ProducerId(7)


class Written(NamedTuple):
    """A batch as the model remembers it."""

    base: int
    values: list[bytes]
    timestamps: list[int]
    epoch: int
    producer: ProducerEntry | None

    @property
    def end(self) -> int:
        return self.base + len(self.values)


class LogMachine(RuleBasedStateMachine):
    """What is written is found; after a crash, what was flushed is found, and nothing but a beginning of the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Written] = []
        self.staged: list[Written] = []
        # Deleted batches that a crash may bring back, since only a flush makes deletion durable.
        self.deleted: list[Written] = []
        self.start = 0
        self.epoch = 0
        self.sequence = 0
        self.counter = 0

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.files = SimulatedFiles(seed)
        self.clock = SimulatedClock(NOON_MS)
        self.open()
        self.directories.create(PARTITION, CONFIG)

    def open(self) -> None:
        self.directories = LogDirectories(["/data"], self.files, self.clock)
        self.directories.load(lambda _: CONFIG)
        assert not self.directories.offline()
        assert not self.directories.directories[0].broken

    @property
    def log(self) -> PartitionLog:
        log = self.directories.get(PARTITION)
        assert log is not None
        return log

    @property
    def end(self) -> int:
        return (self.staged or self.batches)[-1].end if self.staged or self.batches else self.start

    @rule(
        sizes=st.lists(st.integers(0, 300), min_size=1, max_size=4),
        jitter=st.integers(-50, 50),
        idempotent=st.booleans(),
    )
    def stage(self, sizes: list[int], jitter: int, idempotent: bool) -> None:
        self.counter += 1
        timestamp = NOON_MS + self.counter * 10 + jitter
        values = [b"%d:%d" % (self.counter, number) + b"." * size for number, size in enumerate(sizes)]
        producer = (PRODUCER, 0, self.sequence) if idempotent else None
        batch = batch_of(values, timestamp=timestamp, step_ms=3, producer=producer)
        base = stage(self.log, batch, self.epoch)
        assert base == self.end
        self.sequence += len(values) if idempotent else 0
        timestamps = [timestamp + 3 * number for number in range(len(values))]
        entry = self.log.producers.entry(PRODUCER) if idempotent else None
        self.staged.append(Written(base, values, timestamps, self.epoch, entry))
        if self.log.end_offset > (self.batches[-1].end if self.batches else self.start):
            # A new segment was started, so what was staged before this batch is written.
            self.batches += self.staged[:-1]
            self.staged = self.staged[-1:]

    @rule()
    def write(self) -> None:
        self.log.write_staged()
        self.batches += self.staged
        self.staged = []

    @rule()
    def roll(self) -> None:
        self.write()
        self.log.roll()

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        assert self.log.flush() == self.log.end_offset
        assert self.log.recovery_point == self.log.end_offset

    @rule()
    def checkpoint(self) -> None:
        self.directories.checkpoint()

    @rule(part=st.floats(0, 1), prepared=st.booleans())
    def truncate(self, part: float, prepared: bool) -> None:
        self.write()
        offset = self.start + round((self.end - self.start) * part)
        cut = {PARTITION: Offset(offset)}
        tasks = self.directories.cut_tasks(cut) if prepared else {}
        self.directories.truncate(cut, {partition: task.run() for partition, task in tasks.items()})
        if offset == self.end:
            return
        self.deleted = []
        if offset == self.start:
            self.batches = []
        self.batches = [batch for batch in self.batches if batch.end <= offset]
        self.start = min(self.start, self.log.end_offset)
        assert self.log.end_offset == (self.batches[-1].end if self.batches else self.start)
        self._forget_sequence()

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        self.write()
        self.start += round((self.end - self.start) * part)
        self.log.advance_start_offset(Offset(self.start))
        self.log.delete_old_segments(self.clock.now_ms(), Offset(self.end))

    @rule(milliseconds=st.integers(0, 20))
    def reap(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.directories.reap(self.clock.now_ms())

    @rule()
    def restart(self) -> None:
        self.write()
        self.directories.close()
        assert not self.directories.offline()
        self.open()
        assert self.directories.directories[0].was_clean
        assert self.log.recovery_point == self.log.end_offset

    @rule()
    def stop_without_closing(self) -> None:
        """The process dies, the machine goes on: nothing that was written is lost."""
        self.directories.abandon()
        self.staged = []
        self.open()
        self._forget_sequence()
        self._accept_start_after_crash()
        assert self.log.end_offset == (self.batches[-1].end if self.batches else self.start)

    @precondition(lambda self: PARTITION in self.directories.partitions())
    @rule()
    def crash(self) -> None:
        durable = self.log.recovery_point
        written = self.deleted + self.batches + self.staged
        self.deleted = []
        self.files.crash()
        self.staged = []
        self.open()
        if PARTITION not in self.directories.partitions():
            assert durable == 0, "a flushed partition cannot vanish"
            self.directories.create(PARTITION, CONFIG)
        end = self.log.end_offset
        assert end >= durable, "what was flushed is there"
        self.batches = [batch for batch in written if batch.end <= end]
        self._accept_start_after_crash()
        assert end == (self.batches[-1].end if self.batches else self.start)
        self._forget_sequence()

    def _accept_start_after_crash(self) -> None:
        """Where the log starts is durable with a checkpoint only, so a crash may bring old records back."""
        assert self.log.start_offset <= max(self.start, self.log.end_offset)
        self.start = self.log.start_offset
        if self.start == self.log.end_offset:
            # What is left ends before the start that was checkpointed: the log begins there, empty.
            self.deleted += self.batches
            self.batches = []

    def _forget_sequence(self) -> None:
        entry = self.log.producers.entry(PRODUCER)
        self.sequence = entry.last_sequence + 1 if entry else self.sequence

    @invariant()
    def holds_what_was_written(self) -> None:
        log = self.log
        expected = {
            batch.base + number: value
            for batch in self.batches
            for number, value in enumerate(batch.values)
            if batch.base + number >= self.start
        }
        assert log.start_offset == self.start
        assert values_of(log) == expected
        assert values_of(log, max_bytes=400) == expected
        check_indexes(log)

    @invariant()
    def knows_its_epochs(self) -> None:
        epochs: dict[int, int] = {}
        for batch in self.batches + self.staged:
            epochs.setdefault(batch.epoch, batch.base)
        entries = [(epoch, start) for epoch, start in self.log.epochs.entries if start > self.start]
        assert entries == [(epoch, start) for epoch, start in epochs.items() if start > self.start]

    @invariant()
    def knows_its_producer(self) -> None:
        entry = self.log.producers.entry(PRODUCER)
        kept_from = self.log.segments[0].base_offset
        known = [batch.producer for batch in self.batches + self.staged if batch.base >= kept_from and batch.producer]
        if known:
            assert entry is not None
            assert entry.last_timestamp == known[-1].last_timestamp
            forgotten = known[-1].batches[: len(known[-1].batches) - len(entry.batches)]
            assert forgotten + entry.batches == known[-1].batches
            assert all(batch.base_offset < kept_from for batch in forgotten), "only with their records"

    @invariant()
    def finds_timestamps(self) -> None:
        records = [
            (timestamp, batch.base + number)
            for batch in self.batches
            for number, timestamp in enumerate(batch.timestamps)
            if batch.base + number >= self.start
        ]
        for target in {timestamp for timestamp, _ in records[:: max(len(records) // 5, 1)]}:
            first = next(found for found in records if found[0] >= target)
            assert self.log.offset_for_timestamp(target) == first
        assert self.log.offset_for_timestamp(NOON_MS * 2) is None


TestLogModel = pytest.mark.req("B5", "B6", "C9", "B17")(LogMachine.TestCase)
TestLogModel.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
