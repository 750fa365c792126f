"""Who takes records while a disk fills up: leaders stop first, followers later, what coordinators wrote goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast
from uuid import UUID

from harness.logs import NOON_MS
from tidelog.broker.room_watch import RoomWatch
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.errors import LogWriteFailed
from tidelog.log.room import RoomLimits
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.model.topic_settings import topic_defaults
from tidelog.replica.disk import Replica
from tidelog.replica.follower import PartitionFollower
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import LedPartitions

CAPACITY_BYTES = 1_000_000
LIMITS = RoomLimits(10.0, 0)


class IdleDisk:
    def sync_due(self, replica: Replica) -> None: ...
    def sync_later(self, replica: Replica, delay_ms: int) -> None: ...
    def write_failed(self, replica: Replica, failure: LogWriteFailed) -> None: ...


class Followed:
    """Partitions that are all followed."""

    unopened: tuple[()] = ()

    def __init__(self, followers: list[PartitionFollower]) -> None:
        self._followers = followers

    def __iter__(self) -> Iterator[PartitionLeader]:
        return iter(())

    def replicas(self) -> Iterator[PartitionFollower]:
        return iter(self._followers)


def test_followers_go_on_when_leaders_refuse_and_stop_at_half_of_the_limit() -> None:
    files = SimulatedFiles()
    files.capacity_bytes = CAPACITY_BYTES
    clock = SimulatedClock(NOON_MS)
    directories = LogDirectories(["/data"], files, clock)
    directories.load(lambda _: LogConfig())
    followers = [follower_of(directories, topic) for topic in ("tides", "__consumer_offsets")]
    (directory,) = directories.directories
    filling = files.open("/filling", create=True)

    def judged_with(free_bytes: int) -> tuple[bool, list[bool]]:
        filling.truncate(0)
        size = files.free_bytes("/data") - free_bytes
        filling.write([bytes(size)], 0)
        watch_once(directories, followers)
        return directory.is_short_of_room, [follower.has_no_room for follower in followers]

    assert judged_with(150_000) == (False, [False, False])
    assert judged_with(60_000) == (True, [False, False])
    assert judged_with(49_000) == (True, [True, False])
    assert judged_with(50_500) == (True, [True, False]), "not before there is a little more than the limit"
    assert judged_with(52_000) == (True, [False, False])
    assert judged_with(150_000) == (False, [False, False])


def watch_once(directories: LogDirectories, followers: list[PartitionFollower]) -> None:
    async def run() -> None:
        with ThreadPoolExecutor(1) as executor:
            watch = RoomWatch(directories, asyncio.get_running_loop(), executor, LIMITS, lambda: None)
            watch.start(cast(LedPartitions, Followed(followers)))
            watch.stop()

    asyncio.run(run())


def follower_of(directories: LogDirectories, topic: str) -> PartitionFollower:
    partition = TopicPartition(TopicName(topic), PartitionIndex(0))
    return PartitionFollower(
        topic=partition.topic,
        topic_id=UUID(int=1),
        index=partition.partition,
        log=directories.create(partition, LogConfig()),
        config=topic_defaults({}),
        epoch=LeaderEpoch(1),
        leader=NodeId(2),
        high_watermark=Offset(0),
        disk=IdleDisk(),
        on_synced=lambda _: None,
    )
