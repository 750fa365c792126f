"""kill -9 under load: librdkafka producers go on through crashes, and every acknowledged record is there."""

from __future__ import annotations

import random
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from harness.numbered_records import PARTITIONS, NumberedRecords, read_all
from harness.server import ServerProcess, StartBroker

KILLS = 20
SEED = 20


def crash_repeatedly(broker: ServerProcess, kills: int) -> None:
    chance = random.Random(SEED)
    for _ in range(kills):
        time.sleep(chance.uniform(0.05, 0.8))
        broker.kill()
        broker.start()


@pytest.mark.req("E9", "C9", "J4", "A7")
@pytest.mark.parametrize("profile", ["page cache", "synced first"])
def test_no_acknowledged_record_is_lost_doubled_or_moved_by_crashes(start_broker: StartBroker, profile: str) -> None:
    broker = start_broker({"log.flush.interval.messages": "1"} if profile == "synced first" else {})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("numbers", PARTITIONS, 1)])["numbers"].result(30)
    records = NumberedRecords(broker.bootstrap_servers, "numbers")

    records.start()
    crash_repeatedly(broker, KILLS if profile == "page cache" else KILLS // 4)
    records.finish()

    stored = read_all(broker.bootstrap_servers, "numbers")
    assert not records.failed
    assert sum(map(len, records.acknowledged.values())) > 1_000
    for partition in range(PARTITIONS):
        # Order, offsets and number: what was acknowledged is exactly what is there.
        assert stored[partition] == records.acknowledged[partition]
    assert "Traceback" not in broker.log()
