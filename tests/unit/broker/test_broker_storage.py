"""Upkeep of the disk that must not keep the loop from serving requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import cast

import pytest

from harness.logs import NOON_MS, append
from tidelog.broker import storage
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFiles
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.directory import DELETE_SUFFIX
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.replica.disk import Replica
from tidelog.replica.partitions import LedPartitions

SECONDS_MAX = 20
NEVER_SECONDS = 1000.0


class SlowRemoval(RealFiles):
    """Removes nothing of a deleted partition before it may."""

    def __init__(self) -> None:
        self.asked = Event()
        self.may = Event()

    def remove(self, path: str) -> None:
        if DELETE_SUFFIX in path:
            self.asked.set()
            assert self.may.wait(SECONDS_MAX)
        super().remove(path)


class NoPartitions:
    def replicas(self) -> Iterator[Replica]:
        return iter(())


def test_the_loop_goes_on_while_the_files_of_a_deleted_topic_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "REAP_SECONDS", 0.01)
    files = SlowRemoval()
    clock = SimulatedClock(NOON_MS)
    directories = LogDirectories([str(tmp_path)], files, clock)
    directories.load(lambda _: LogConfig())
    partitions = [TopicPartition(TopicName("tides"), PartitionIndex(number)) for number in range(3)]
    for partition in partitions:
        append(directories.create(partition, LogConfig(file_delete_delay_ms=0)), b"a")

    async def run() -> None:
        with ThreadPoolExecutor(2) as executor:
            upkeep = storage.Storage(
                directories,
                asyncio.get_running_loop(),
                executor,
                clock.now_ms,
                checkpoint_seconds=NEVER_SECONDS,
                retention_check_seconds=NEVER_SECONDS,
                producer_expiration_ms=lambda: 0,
            )
            upkeep.start(cast(LedPartitions, NoPartitions()))
            for partition in partitions[:2]:
                directories.delete(partition)
            async with asyncio.timeout(SECONDS_MAX):
                while not files.asked.is_set():
                    await asyncio.sleep(0.01)
                # The first removal is under way, and others are added to what waits.
                directories.delete(partitions[2])
                files.may.set()
                while list(tmp_path.glob(f"*{DELETE_SUFFIX}")):
                    await asyncio.sleep(0.01)
            upkeep.stop()

    asyncio.run(run())
    assert not directories.offline()
