"""Real file systems under a real broker: the power is cut, they fill up, they become read-only. librdkafka produces all
the while, and every id that was acknowledged is found again by a consumer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from soak.disks import cut_often

from harness.disks import MEBIBYTE, Disk, why_not
from harness.numbered_records import PARTITIONS, NumberedRecords, read_all
from harness.server import ServerProcess
from harness.tidelog_server import tidelog_server
from tidelog.wire.batch import iter_headers

MakeDisk = Callable[..., Disk]
# Set where a file system that cannot be mounted is a failure.
MUST_MOUNT = "TIDELOG_MUST_MOUNT"
TOPIC = "numbers"
FSYNC = {"log.flush.interval.messages": "1"}
ONE_COORDINATOR = {"offsets.topic.num.partitions": "1"}
SEGMENTS = {"segment.bytes": str(MEBIBYTE), "file.delete.delay.ms": "0"}
NO_LIMITS = {"tidelog.disk.free.min.percent": "0", "tidelog.disk.free.min.bytes": "0"}


def skip_unless_it_mounts(kind: str) -> None:
    reason = why_not(kind)
    if reason is not None:
        # Continuous integration has what it takes; a developer's machine may not, and says so.
        assert MUST_MOUNT not in os.environ, f"{kind} must be mounted here: {reason}"
        pytest.skip(f"{kind} cannot be mounted here: {reason}. The simulated disk loses power in test_log_durability")


@pytest.fixture
def make_disk(tmp_path: Path) -> Iterator[MakeDisk]:
    made: list[Disk] = []

    def make(kind: str, mebibytes: int | None = None) -> Disk:
        skip_unless_it_mounts(kind)
        made.append(Disk(kind, tmp_path, mebibytes=mebibytes))
        return made[-1]

    yield make
    for disk in made:
        disk.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    started: list[ServerProcess] = []

    def begin(disk: Disk, settings: dict[str, str]) -> ServerProcess:
        properties = {**NO_LIMITS, **ONE_COORDINATOR, "log.dirs": str(disk.folder / "data"), **settings}
        server = tidelog_server(tmp_path / "server", properties)
        server.start()
        started.append(server)
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=SEGMENTS)])[TOPIC].result(30)
        commit(server, 1)  # The topic of offsets is there before the disk is full.
        return server

    yield begin
    for server in started:
        server.kill()


def wait_for(is_so: Callable[[], object], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be so"
        time.sleep(0.02)


def wait_for_more(records: NumberedRecords, count: int, disk: Disk) -> None:
    """Until so many more are acknowledged; says what is on the disk when the producer cannot go on."""
    reached = records.count + count
    try:
        wait_for(lambda: records.count > reached or not records.goes_on)
        assert records.goes_on, "the producer has given up"
    except AssertionError as failure:
        acknowledged = {partition: len(numbers) for partition, numbers in sorted(records.acknowledged.items())}
        raise AssertionError(f"{failure}; acknowledged {acknowledged}, stored {last_batches(disk)}") from None


def last_batches(disk: Disk) -> dict[str, list[tuple[int, int, int]]]:
    """Of each partition the last batches: offset, first sequence, records. Sequences count what was acknowledged."""
    tails = {}
    for folder in sorted((disk.folder / "data").glob(f"{TOPIC}-*")):
        headers = [
            header for path in sorted(folder.glob("*.log")) for _, header in iter_headers(memoryview(path.read_bytes()))
        ]
        tails[folder.name] = [(one.base_offset, one.base_sequence, one.records_count) for one in headers[-8:]]
    return tails


def commit(server: ServerProcess, offset: int) -> None:
    """Commit an offset of a group."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "g"})
    committed = consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()
    assert committed is not None
    assert committed[0].error is None


def check_all_are_there(records: NumberedRecords, server: ServerProcess) -> None:
    stored = read_all(server.bootstrap_servers, TOPIC)
    for partition, acknowledged in records.acknowledged.items():
        assert set(acknowledged) <= set(stored[partition])
        numbers = [number for number, _ in stored[partition]]
        assert len(numbers) == len(set(numbers)), "no record is there twice"


def check_that_it_is_sound(disk: Disk) -> None:
    tidelog = Path(sys.executable).with_name("tidelog")
    command = [tidelog, "log", "verify", disk.folder / "data"]
    report = subprocess.run(command, check=False, capture_output=True, text=True)
    assert report.returncode == 0, report.stdout + report.stderr


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_cut_takes_nothing_that_was_synced_before(tmp_path: Path, kind: str) -> None:
    """Of the disks themselves, on which all that follows relies."""
    skip_unless_it_mounts(kind)

    assert cut_often(kind, 5, tmp_path, seed=1).synced_before == 0


@pytest.mark.req("C9")
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_nothing_that_was_acknowledged_is_lost_when_the_power_is_cut(
    make_disk: MakeDisk, start: Callable[..., ServerProcess], kind: str
) -> None:
    disk = make_disk(kind)
    server = start(disk, FSYNC)
    records = NumberedRecords(server.bootstrap_servers, TOPIC, value_bytes=200)
    records.start()
    for _ in range(2):
        wait_for_more(records, 500, disk)
        server.freeze()
        disk.cut_power()
        server.kill()
        disk.mount_again()
        server.start()
    wait_for_more(records, 0, disk)
    records.finish()

    assert not records.failed, records.failed[:5]
    check_all_are_there(records, server)
    server.stop()
    check_that_it_is_sound(disk)


@pytest.mark.req("C7", "C9")
def test_after_a_cut_without_syncs_the_log_is_a_sound_beginning_of_what_was_sent(
    make_disk: MakeDisk, start: Callable[..., ServerProcess]
) -> None:
    disk = make_disk("ext4")
    server = start(disk, {})
    records = NumberedRecords(server.bootstrap_servers, TOPIC, value_bytes=500)
    records.start()
    wait_for(lambda: records.count > 3_000)
    safe = {partition: list(acknowledged) for partition, acknowledged in dict(records.acknowledged).items()}
    subprocess.run(["sync", "-f", disk.folder], check=True)
    more = records.count + 1_000
    wait_for(lambda: records.count > more)
    server.freeze()
    disk.cut_power()
    records.give_up()
    server.kill()
    disk.mount_again()
    server.start()

    stored = read_all(server.bootstrap_servers, TOPIC)
    for partition, acknowledged in safe.items():
        assert set(acknowledged) <= set(stored[partition]), "what was written back is there"
    for partition, found in stored.items():
        assert [offset for _, offset in found] == list(range(len(found)))
        assert [number for number, _ in found] == [PARTITIONS * index + partition for index in range(len(found))]
    server.stop()
    check_that_it_is_sound(disk)


def test_a_full_disk_refuses_records_until_there_is_room_and_loses_none(
    make_disk: MakeDisk, start: Callable[..., ServerProcess]
) -> None:
    disk = make_disk("tmpfs", 16)
    ballast = disk.folder / "ballast"
    ballast.write_bytes(bytes(8 * MEBIBYTE))
    server = start(disk, {})
    records = NumberedRecords(server.bootstrap_servers, TOPIC, value_bytes=4_000)
    records.start()
    wait_for(lambda: "the disk is full" in server.log())
    stuck_at = records.count
    stored = read_all(server.bootstrap_servers, TOPIC)
    assert sum(map(len, stored.values())) >= stuck_at, "reads go on"

    ballast.unlink()
    wait_for(lambda: records.count > stuck_at + 200)
    records.give_up()

    assert server.is_alive()
    check_all_are_there(records, server)
    server.stop()
    check_that_it_is_sound(disk)


def test_a_nearly_full_disk_says_so_and_offsets_are_still_committed(
    make_disk: MakeDisk, start: Callable[..., ServerProcess]
) -> None:
    disk = make_disk("tmpfs", 16)
    settings = {"tidelog.disk.free.min.bytes": str(1024 * MEBIBYTE), "log.retention.check.interval.ms": "200"}
    server = start(disk, settings)
    records = NumberedRecords(server.bootstrap_servers, TOPIC, value_bytes=4_000)
    records.start()
    wait_for(lambda: "nearly full" in server.log())
    time.sleep(0.5)  # What was under way is answered.
    stuck_at = records.count
    stored = read_all(server.bootstrap_servers, TOPIC)
    commit(server, 7)

    assert sum(map(len, stored.values())) >= stuck_at
    refused = Producer({"bootstrap.servers": server.bootstrap_servers, "message.timeout.ms": 1_500, "log_level": 0})
    errors: list[str] = []
    refused.produce(TOPIC, "x", on_delivery=lambda error, _: errors.append(str(error)))
    refused.flush(10)
    assert errors != ["None"], "it is refused, tried again, and given up in the end"

    # DeleteRecords is still served, and makes room.
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    deleted = admin.delete_records([TopicPartition(TOPIC, index, stored[index][-1][1]) for index in range(PARTITIONS)])
    assert [future.result(10).low_watermark > 0 for future in deleted.values()]
    wait_for(lambda: records.count > stuck_at + 100)
    records.give_up()
    assert server.is_alive()


def test_a_disk_that_becomes_read_only_takes_nothing_away(
    make_disk: MakeDisk, start: Callable[..., ServerProcess]
) -> None:
    disk = make_disk("ext4")
    server = start(disk, {})
    records = NumberedRecords(server.bootstrap_servers, TOPIC, value_bytes=200)
    records.start()
    wait_for(lambda: records.count > 2_000)
    subprocess.run(["sync", "-f", disk.folder], check=True)
    disk.become_read_only()
    safe = records.count
    wait_for(lambda: "is offline now" in server.log())
    assert server.is_alive()
    records.give_up()
    server.kill()
    disk.mount_again()
    server.start()

    assert records.count >= safe
    stored = read_all(server.bootstrap_servers, TOPIC)
    assert sum(map(len, stored.values())) >= 2_000
    server.stop()
    check_that_it_is_sound(disk)
