"""An answer gets lost, the client sends the batch again: an idempotent producer's records are there once, in order.

A proxy between client and broker swallows the answer to a produce request, so these are real retries of real clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from drivers import aiokafka_driver, confluent_driver, java_driver, kafka_python_driver
from drivers.corpus import Record, text_records

from harness.proxy import PRODUCE, LossyProxy, lossy_proxy
from harness.server import HOST, ServerProcess, free_port
from harness.waiting import wait_until

# Few enough for one batch: over a restart Apache Kafka remembers the last batch of a producer only.
RECORDS = text_records(100)
# Not kcat: it ends as soon as its only connection does.
DRIVERS = {
    "confluent": confluent_driver,
    "kafka-python": kafka_python_driver,
    "aiokafka": aiokafka_driver,
    "java": java_driver,
}


class Lossy(NamedTuple):
    """A broker that clients reach only through a proxy."""

    broker: ServerProcess
    proxy: LossyProxy

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.proxy.port}"


@pytest.fixture(scope="module")
def lossy(start_broker: Callable[..., ServerProcess]) -> Iterator[Lossy]:
    port = free_port()
    broker = start_broker({"advertised.listeners": f"PLAINTEXT://{HOST}:{port}"})
    with lossy_proxy(port, broker.port) as proxy:
        yield Lossy(broker, proxy)


def create(lossy: Lossy, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": lossy.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    wait_until(lambda: topic in admin.list_topics(timeout=10).topics)


def end_offset(lossy: Lossy, topic: str) -> int:
    reader = confluent_driver.consumer(lossy.bootstrap_servers)
    try:
        end: int = reader.get_watermark_offsets(confluent_driver.TopicPartition(topic, 0), 30)[1]
        return end
    finally:
        reader.close()


def timeless(records: list[Record]) -> list[Record]:
    return [record.without_time() for record in records]


@pytest.mark.req("J1", "J2", "J3", "J4", "E8")
@pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS.keys())
def test_a_batch_sent_twice_is_written_once(lossy: Lossy, topic: str, driver: ModuleType) -> None:
    create(lossy, topic)
    lost_before = lossy.proxy.lost

    lossy.proxy.lose_next(PRODUCE, meanwhile=lambda: None)
    driver.produce(lossy.bootstrap_servers, topic, RECORDS, idempotent=True)

    assert lossy.proxy.lost == lost_before + 1
    assert end_offset(lossy, topic) == len(RECORDS)
    assert timeless(confluent_driver.consume(lossy.bootstrap_servers, topic, len(RECORDS))) == timeless(RECORDS)


@pytest.mark.req("J4")
@pytest.mark.parametrize("ending", ["restart", "kill"])
@pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS.keys())
def test_the_broker_knows_a_batch_again_after_it_was_started_again(
    lossy: Lossy, topic: str, driver: ModuleType, ending: str
) -> None:
    create(lossy, topic)

    def start_again() -> None:
        if ending == "kill":
            lossy.broker.kill()
        lossy.broker.restart()

    lossy.proxy.lose_next(PRODUCE, meanwhile=start_again)
    driver.produce(lossy.bootstrap_servers, topic, RECORDS, idempotent=True)

    assert end_offset(lossy, topic) == len(RECORDS)
    assert timeless(confluent_driver.consume(lossy.bootstrap_servers, topic, len(RECORDS))) == timeless(RECORDS)


@pytest.mark.req("S15")
def test_without_idempotence_the_same_loss_leaves_copies(lossy: Lossy, topic: str) -> None:
    create(lossy, topic)

    lossy.proxy.lose_next(PRODUCE, meanwhile=lambda: None)
    confluent_driver.produce(lossy.bootstrap_servers, topic, RECORDS, idempotent=False)

    assert end_offset(lossy, topic) > len(RECORDS), "the loss must be real, or the tests above prove nothing"
