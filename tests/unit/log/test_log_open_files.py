from __future__ import annotations

import contextlib
import os
from pathlib import Path

from harness.logs import NOON_MS, append, values_of
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFiles
from tidelog.log.config import LogConfig
from tidelog.log.open_files import OpenFiles
from tidelog.log.recovery import create_log
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition


def descriptors(folder: Path) -> int:
    """Open files below a folder. Other files of this process come and go with the clients of other tests."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # The one that lists the folder is gone by now.
            targets.append(descriptor.readlink())
    return sum(target.is_relative_to(folder) for target in targets)


def test_many_partitions_share_few_open_files(tmp_path: Path) -> None:
    open_files = OpenFiles(RealFiles(), limit=10)
    logs = [
        create_log(
            TopicPartition(TopicName("t"), PartitionIndex(number)),
            str(tmp_path / f"t-{number}"),
            open_files,
            SimulatedClock(NOON_MS),
            LogConfig(),
        )
        for number in range(60)
    ]
    for turn in range(3):
        for number, log in enumerate(logs):
            append(log, b"%d-%d" % (number, turn))
        assert len(open_files) <= 10
        assert descriptors(tmp_path) <= 10

    for number, log in enumerate(logs):
        assert values_of(log) == {turn: b"%d-%d" % (number, turn) for turn in range(3)}
        log.flush()
    for log in logs:
        log.close()
    assert descriptors(tmp_path) == 0


def test_a_reader_in_flight_keeps_the_file_that_its_segment_let_go(tmp_path: Path) -> None:
    open_files = OpenFiles(RealFiles(), limit=1)
    logs = [
        create_log(
            TopicPartition(TopicName("t"), PartitionIndex(number)),
            str(tmp_path / f"t-{number}"),
            open_files,
            SimulatedClock(NOON_MS),
            LogConfig(),
        )
        for number in range(2)
    ]
    append(logs[0], b"first")
    part = logs[0].read(Offset(0), 1000, logs[0].end_offset)
    append(logs[1], b"second")

    assert logs[0].active_segment.file is None
    assert part is not None
    assert b"first" in part.read()
    assert os.fstat(part.fileno).st_size == len(part)
