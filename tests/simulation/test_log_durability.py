"""A leader with `durability="fsync"` on a disk that loses power at any operation: nothing acknowledged is ever lost.

The leader, the log and the settings are the real ones; syncs end some turns after they began, as in a thread.
"""

from __future__ import annotations

import contextlib
from random import Random
from uuid import UUID

import pytest

from harness.logs import NOON_MS, PARTITION, batch_of, values_of
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedCrash, SimulatedFiles
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.durability import Durability
from tidelog.log.errors import LogWriteFailed
from tidelog.log.segment import Segment
from tidelog.model.broker_settings import broker_values
from tidelog.model.durability import FSYNC, PAGE_CACHE, durability_properties
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.topic_settings import topic_defaults
from tidelog.replica.disk import Replica
from tidelog.replica.in_sync import InSync
from tidelog.replica.leader import PartitionLeader
from tidelog.wire.messages.produce import PartitionProduceResponse

LOG_CONFIG = LogConfig(segment_bytes=800, index_interval_bytes=150, file_delete_delay_ms=5)
TURNS = 24
SHARDS = 3
SEEDS = 4


class Acknowledgement:
    """Noted when the leader says that a batch is safe."""

    def __init__(self, acknowledged: dict[int, bytes], base: int, values: list[bytes]) -> None:
        self._acknowledged = acknowledged
        self._values = {base + number: value for number, value in enumerate(values)}

    def replicated(self) -> None:
        self._acknowledged |= self._values

    def failed(self) -> None:
        raise AssertionError("this disk loses power, but never fails")


class LeaderOnADisk:
    def __init__(self, durability: str, seed: int) -> None:
        self.random = Random(seed)
        self.files = SimulatedFiles(seed)
        self.clock = SimulatedClock(NOON_MS)
        self.config = topic_defaults(broker_values(durability_properties(durability)))
        self.acknowledged: dict[int, bytes] = {}
        self.written: dict[int, bytes] = {}
        self.sync_is_due = False
        self.directories = LogDirectories(["/data"], self.files, self.clock)
        self.directories.load(lambda _: LOG_CONFIG)

    # The disk, as the leader knows it

    def sync_due(self, replica: Replica) -> None:
        self.sync_is_due = True

    def sync_later(self, replica: Replica, delay_ms: int) -> None:
        raise AssertionError("nobody asked for flush.ms")

    def write_failed(self, replica: Replica, failure: LogWriteFailed) -> None:
        raise AssertionError(failure)

    def run(self) -> None:
        log = self.directories.create(PARTITION, LOG_CONFIG)
        in_sync = InSync(NodeId(1), 30_000, {})
        in_sync.lead(LeaderEpoch(0), 0, (NodeId(1),), (NodeId(1),), log.end_offset, self.clock.now_ms())
        leader = PartitionLeader(
            topic=PARTITION.topic,
            topic_id=UUID(int=1),
            index=PARTITION.partition,
            log=log,
            config=self.config,
            epoch=LeaderEpoch(0),
            in_sync=in_sync,
            high_watermark=Offset(0),
            on_staged=lambda _: None,
            disk=self,
        )
        for turn in range(TURNS):
            waiting = []
            for number in range(self.random.randint(1, 3)):
                values = [b"%d-%d-%d" % (turn, number, index) + b"." * 40 for index in range(2)]
                answer = PartitionProduceResponse(0)
                leader.stage(batch_of(values, timestamp=self.clock.now_ms()), answer, self.clock.now_ms())
                self.written |= {answer.base_offset + index: value for index, value in enumerate(values)}
                waiting.append(
                    (leader.staged_end_offset, Acknowledgement(self.acknowledged, answer.base_offset, values))
                )
            leader.write_staged()
            # As the produce handler: answered now, or when the high watermark gets there.
            for end, acknowledgement in waiting:
                if leader.high_watermark >= end:
                    acknowledgement.replicated()
                else:
                    leader.waiting_acks.add(end, acknowledgement)
            if self.sync_is_due and self.random.random() < 0.5:
                self.sync_is_due = False
                log.flush()
                leader.synced()
            if turn % 8 == 6:
                log.flush_sealed()
                self.directories.checkpoint()
            self.clock.advance(10)

    def lost_after_power_is_back(self) -> dict[int, bytes]:
        self.files.crash()
        again = LogDirectories(["/data"], self.files, self.clock)
        again.load(lambda _: LOG_CONFIG)
        log = again.get(PARTITION)
        found = values_of(log) if log is not None else {}
        assert list(found) == list(range(len(found))), "a beginning of what was written, without a gap"
        assert found.items() <= self.written.items()
        return {offset: value for offset, value in self.acknowledged.items() if found.get(offset) != value}


def operations_of(durability: str, seed: int) -> int:
    world = LeaderOnADisk(durability, seed)
    world.run()
    if durability == FSYNC:
        assert world.acknowledged, "some syncs were done"
    return world.files.operations


def lost_at(durability: str, crash_at: int, seed: int) -> int:
    world = LeaderOnADisk(durability, seed)
    world.files.crash_at = world.files.operations + crash_at
    with contextlib.suppress(SimulatedCrash):
        world.run()
    return len(world.lost_after_power_is_back())


@pytest.mark.req("C5", "C9")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_nothing_that_was_acknowledged_is_lost_whatever_operation_was_the_last(shard: int) -> None:
    for seed in range(SEEDS):
        for crash_at in range(1 + shard, operations_of(FSYNC, seed) + 1, SHARDS):
            assert lost_at(FSYNC, crash_at, seed) == 0, (seed, crash_at)


def _loses_something(durability: str) -> bool:
    return any(
        lost_at(durability, crash_at, seed)
        for seed in range(SEEDS)
        for crash_at in range(1, operations_of(durability, seed) + 1)
    )


def test_the_page_cache_alone_promises_less() -> None:
    assert _loses_something(PAGE_CACHE)


def test_a_leader_that_acknowledges_before_the_sync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Segment, "sync_batches", lambda self: None)
    assert _loses_something(FSYNC)


def test_a_leader_that_takes_written_for_synced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionLeader, "synced", lambda self: None)
    monkeypatch.setattr(
        Durability, "recovery_point", property(lambda self: 2**62, lambda self, value: None), raising=False
    )
    assert _loses_something(FSYNC)
