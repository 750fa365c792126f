from __future__ import annotations

from uuid import UUID

import pytest

from harness.logs import PARTITION, append, new_log, values_of
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.errors import LogWriteFailed
from tidelog.log.partition import PartitionLog
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.topic_settings import TopicConfig, topic_config, topic_defaults
from tidelog.replica.disk import Replica
from tidelog.replica.divergence import common_end, divergence
from tidelog.replica.follower import GO_ON, NO_ROOM, SYNC_FIRST, BackOff, PartitionFollower, StartOver, Truncate
from tidelog.wire.messages.fetch import EpochEndOffset, PartitionData

DEFAULTS = topic_defaults({})


# Followers whose sync is done, as they report it.
SYNCED: list[PartitionFollower] = []
SYNCING: list[Replica] = []


class RecordingDisk:
    def sync_due(self, replica: Replica) -> None:
        SYNCING.append(replica)

    def sync_later(self, replica: Replica, delay_ms: int) -> None: ...
    def write_failed(self, replica: Replica, failure: LogWriteFailed) -> None: ...


def log_with(*batches: tuple[int, int]) -> PartitionLog:
    """A log of batches, each (leader epoch, number of records)."""
    log = new_log(SimulatedFiles(), SimulatedClock(), "/log")
    for epoch, count in batches:
        append(log, *(b"%d" % epoch for _ in range(count)), epoch=epoch)
    return log


def following(
    log: PartitionLog, *, epoch: int = 9, high_watermark: int = 0, config: TopicConfig = DEFAULTS
) -> PartitionFollower:
    return PartitionFollower(
        topic=PARTITION.topic,
        topic_id=UUID(int=1),
        index=PARTITION.partition,
        log=log,
        config=config,
        epoch=LeaderEpoch(epoch),
        leader=NodeId(2),
        high_watermark=Offset(high_watermark),
        disk=RecordingDisk(),
        on_synced=SYNCED.append,
    )


def content(log: PartitionLog, start: int = 0) -> bytes:
    piece = log.read(Offset(start), 1 << 20, log.end_offset)
    return b"" if piece is None else piece.read()


def answer(records: bytes = b"", *, high_watermark: int = 0, start: int = 0) -> PartitionData:
    return PartitionData(0, 0, high_watermark, -1, start, records=records)


@pytest.mark.req("D4")
@pytest.mark.req("D16")
def test_a_follower_has_the_same_bytes_and_a_high_watermark_no_further_than_its_end() -> None:
    leader = log_with((3, 2), (5, 3))
    follower = following(log_with())
    assert follower.take(answer(content(leader), high_watermark=99)) == GO_ON
    assert content(follower.log) == content(leader)
    assert follower.log.epochs.entries == leader.epochs.entries
    assert follower.high_watermark == 5


def test_a_corrupt_batch_is_refused_and_what_came_before_it_is_kept() -> None:
    leader = log_with((3, 2), (3, 2), (3, 2))
    whole = content(leader)
    damaged = bytearray(whole)
    damaged[2 * len(whole) // 3 - 1] ^= 1
    follower = following(log_with())
    outcome = follower.take(answer(bytes(damaged), high_watermark=6))
    assert isinstance(outcome, BackOff)
    assert outcome.code is ErrorCode.CORRUPT_MESSAGE
    assert follower.log.end_offset == 2
    assert follower.take(answer(whole[len(whole) // 3 :], high_watermark=6)) == GO_ON
    assert content(follower.log) == whole


@pytest.mark.parametrize("damage", [(8, b"\xff\xff\xff\xff"), (8, b"\x00\xff\x00\x00"), (16, b"\x01"), (12, b"\x7f")])
def test_a_header_that_cannot_be_true_is_refused(damage: tuple[int, bytes]) -> None:
    position, bytes_there = damage
    data = bytearray(content(log_with((3, 2))))
    data[position : position + len(bytes_there)] = bytes_there
    follower = following(log_with())
    assert isinstance(follower.take(answer(bytes(data))), BackOff)
    assert follower.log.end_offset == 0


def test_a_batch_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    data = content(log_with((3, 2), (3, 2)))
    follower = following(log_with())
    assert follower.take(answer(data[:-5])) == GO_ON
    assert follower.log.end_offset == 2


def test_without_room_nothing_is_taken_and_what_is_here_is_still_committed() -> None:
    leader = log_with((3, 2), (3, 3))
    follower = following(log_with((3, 2)))
    follower.has_no_room = True
    assert follower.take(answer(content(leader, 2), high_watermark=5)) == NO_ROOM
    assert (follower.log.end_offset, follower.high_watermark) == (2, 2)
    follower.has_no_room = False
    assert follower.take(answer(content(leader, 2), high_watermark=5)) == GO_ON
    assert content(follower.log) == content(leader)


def test_batches_that_are_already_here_are_not_taken_again() -> None:
    data = content(log_with((3, 2), (3, 2)))
    follower = following(log_with())
    follower.take(answer(data))
    outcome = follower.take(answer(data))
    assert isinstance(outcome, BackOff)
    assert follower.log.end_offset == 4


@pytest.mark.req("D18")
@pytest.mark.parametrize(
    ("leader", "follower", "end"),
    [
        # The follower led epoch 3 last and has records that nobody else has.
        ([(1, 4), (4, 2)], [(1, 4), (3, 3)], 4),
        # It has less of the epoch than the leader: nothing is cut, whatever its high watermark.
        ([(1, 6)], [(1, 4)], None),
        # It has more of the epoch.
        ([(1, 4), (2, 1)], [(1, 4), (1, 2)], 4),
        # KIP-279: neither knows the other's epoch; it takes more than one step.
        ([(1, 4), (3, 2), (5, 1)], [(1, 4), (2, 2), (4, 2)], 4),
    ],
)
def test_logs_are_cut_where_their_epochs_part(
    leader: list[tuple[int, int]], follower: list[tuple[int, int]], end: int | None
) -> None:
    leaders, log = log_with(*leader), log_with(*follower)
    before = values_of(log)
    for _ in range(4):
        found = divergence(leaders, log.epochs.latest, log.end_offset)
        if found is None:
            break
        log.truncate_to(common_end(log, EpochEndOffset(*found)))
    assert divergence(leaders, log.epochs.latest, log.end_offset) is None
    assert log.end_offset == (len(before) if end is None else end)
    assert values_of(log) == {offset: value for offset, value in values_of(leaders).items() if offset < log.end_offset}


def test_a_log_is_not_cut_to_its_high_watermark() -> None:
    follower = following(log_with((1, 4)), high_watermark=1)
    outcome = follower.take(PartitionData(0, diverging_epoch=EpochEndOffset(1, 3)))
    assert outcome == Truncate(Offset(3))


def test_who_fell_behind_the_start_of_the_leader_starts_over_there() -> None:
    follower = following(log_with((1, 4)))
    outcome = follower.take(PartitionData(0, ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=50))
    assert outcome == StartOver(Offset(50))


def test_a_log_that_starts_over_within_a_batch_takes_the_whole_batch() -> None:
    data = content(log_with((1, 10)))
    log = log_with()
    log.truncate_fully_and_start_at(Offset(5))
    follower = following(log)
    assert follower.take(answer(data, high_watermark=10, start=5)) == GO_ON
    assert (log.start_offset, log.end_offset) == (5, 10)


def test_the_start_of_the_log_follows_the_leader_up_to_the_high_watermark() -> None:
    follower = following(log_with((1, 10)), high_watermark=4)
    follower.take(answer(high_watermark=6, start=8))
    assert follower.log.start_offset == 6


def test_where_writes_are_synced_first_the_next_fetch_waits_for_the_sync() -> None:
    follower = following(log_with(), config=topic_config(DEFAULTS, {"flush.messages": "1"}))
    assert follower.take(answer(content(log_with((1, 2))))) == SYNC_FIRST
    assert SYNCING.pop() is follower
    follower.log.flush()
    follower.synced()
    assert SYNCED.pop() is follower


def test_a_led_epoch_without_a_record_is_dropped_and_nothing_else() -> None:
    leader, log = log_with((1, 4)), log_with((1, 4))
    log.begin_epoch(LeaderEpoch(2))
    leader.begin_epoch(LeaderEpoch(3))
    found = divergence(leader, log.epochs.latest, log.end_offset)
    assert found is not None
    log.truncate_to(common_end(log, EpochEndOffset(*found)))
    assert log.end_offset == 4
    assert divergence(leader, log.epochs.latest, log.end_offset) is None


def test_readers_of_a_follower_are_fenced_and_woken_like_those_of_a_leader() -> None:
    follower = following(log_with((1, 4)), epoch=5)
    woken: list[int] = []

    class Reader:
        def grew(self, _: object, grown_bytes: int) -> None:
            woken.append(grown_bytes)

    follower.watchers[Reader()] = None
    follower.take(answer(high_watermark=3))
    assert follower.high_watermark == 3
    assert len(woken) == 1
    with pytest.raises(Exception, match="FENCED_LEADER_EPOCH"):
        follower.check_epoch(4)


def test_a_follower_whose_disk_is_full_keeps_what_it_has_and_goes_on_when_there_is_room() -> None:
    leader = log_with((3, 2), (5, 3))
    files = SimulatedFiles()
    log = new_log(files, SimulatedClock(), "/log")
    follower = following(log)
    first, rest = content(leader)[: len(content(leader)) - len(content(leader, 2))], content(leader, 2)
    assert follower.take(answer(first, high_watermark=2)) == GO_ON

    files.capacity_bytes = files.used_bytes + 10
    refused = follower.take(answer(rest, high_watermark=5))
    assert isinstance(refused, BackOff) and refused.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.end_offset, follower.high_watermark, follower.failed) == (2, 2, False)
    assert content(log) == first, "what was written of the batch is not part of the log"

    files.capacity_bytes = None
    assert follower.take(answer(rest, high_watermark=5)) == GO_ON
    assert (content(log), follower.high_watermark) == (content(leader), 5)
