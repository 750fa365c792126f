"""The metadata log on a disk shows the machine of the quorum what the log in memory showed it in its simulation."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.raft.storage import Entry, MemoryLog
from tidelog.broker.raft.metadata_log import MetadataLog, open_metadata_log
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.open_files import OpenFiles
from tidelog.metadata.image import EMPTY
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.raft.ports import LogView, SnapshotId
from tidelog.wire.messages.metadata_records import NoOpRecord

SEGMENT_BYTES = 1 << 20
EPOCHS = [LeaderEpoch(epoch) for epoch in range(12)]

step = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4), st.integers(0, 2)),
    st.tuples(st.just("truncate"), st.integers(0, 10), st.just(0)),
    st.tuples(st.just("snapshot"), st.integers(0, 10), st.just(0)),
    st.tuples(st.just("install"), st.integers(1, 5), st.integers(0, 1)),
    st.tuples(st.just("reopen"), st.just(0), st.just(0)),
)


class Pair:
    """The log on a disk, and the one that it must look like."""

    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.files.make_directory("/data")
        self.clock = SimulatedClock()
        self.model = MemoryLog()
        self.epoch = LeaderEpoch(1)
        # Batches are cut as a whole, as epochs are in the quorum: these are the offsets at which one begins.
        self.starts: list[Offset] = []
        self.kept: list[SnapshotId] = []
        self.real: MetadataLog = self._open()

    def _open(self) -> MetadataLog:
        return open_metadata_log("/data", OpenFiles(self.files, 16), self.clock, SEGMENT_BYTES)

    def append(self, count: int, newer: int) -> None:
        self.epoch = LeaderEpoch(self.epoch + newer)
        self.starts.append(self.real.end_offset)
        self.real.append([NoOpRecord()] * count, self.epoch)
        self.model.append([Entry(self.epoch, "record")] * count)

    def truncate(self, back: int, _: int) -> None:
        lowest = self.kept[-1].end_offset if self.kept else Offset(0)
        cuts = [offset for offset in self.starts if offset >= lowest]
        if not cuts:
            return
        offset = cuts[-1 - back % len(cuts)]
        self.starts = [start for start in self.starts if start < offset]
        self.real.truncate(offset)
        self.model.truncate(offset)

    def snapshot(self, back: int, _: int) -> None:
        ends = [*self.starts[1:], self.real.end_offset]
        ends = [end for end in ends if end > (self.kept[-1].end_offset if self.kept else 0)]
        if not ends:
            return
        end = ends[-1 - back % len(ends)]
        made = SnapshotId(end, self.real.epoch_at(Offset(end - 1)))
        self.real.write_snapshot(made, EMPTY, None)
        self.real.snapshot_written(made)
        self.kept = [*self.kept, made][-2:]
        if len(self.kept) == 2:
            # The log begins where the older of two snapshots ends.
            self.model.take_snapshot(self.kept[0].end_offset, None)
            if self.model.snapshot is not None and self.model.snapshot.end_offset > self.model.start_offset:
                self.model.forget_before_snapshot()
        self.model.take_snapshot(end, None)
        self.starts = [start for start in self.starts if start >= self.model.start_offset]

    def install(self, further: int, newer: int) -> None:
        self.epoch = LeaderEpoch(self.epoch + newer)
        made = SnapshotId(Offset(self.real.end_offset + further), self.epoch)
        self.real.write_snapshot(made, EMPTY, None)
        self.real.start_again_at(made)
        self.model.install(made, None)
        self.kept, self.starts = [made], []

    def reopen(self, _: int, __: int) -> None:
        self.real.flush()
        self.real = self._open()


def seen(log: LogView) -> tuple[object, ...]:
    offsets = [Offset(offset) for offset in range(max(log.start_offset - 1, 0), log.end_offset)]
    return (
        log.start_offset,
        log.start_epoch,
        log.end_offset,
        log.last_epoch,
        log.snapshot,
        [log.epoch_at(offset) for offset in offsets],
        [log.epoch_end(epoch) for epoch in EPOCHS],
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(step, max_size=25))
def test_the_machine_sees_the_same_log_on_disk_as_in_its_simulation(steps: list[tuple[str, int, int]]) -> None:
    pair = Pair()
    for name, first, second in steps:
        getattr(pair, name)(first, second)
        assert seen(pair.real) == seen(pair.model), name
