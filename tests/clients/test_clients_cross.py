"""What one client wrote, every other client reads byte for byte."""

from __future__ import annotations

from types import ModuleType

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from drivers import aiokafka_driver, confluent_driver, java_driver, kafka_python_driver, kcat_driver
from drivers.corpus import Record, any_records, text_records

from harness.server import ServerProcess
from harness.waiting import wait_until

# Those with an API take any bytes and set timestamps; command line clients take lines of text.
LIBRARIES = {"confluent": confluent_driver, "kafka-python": kafka_python_driver, "aiokafka": aiokafka_driver}
TOOLS = {"kcat": kcat_driver, "java": java_driver}
EVERYONE = {**LIBRARIES, **TOOLS}
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def create(broker: ServerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    wait_until(lambda: topic in admin.list_topics(timeout=10).topics)


@pytest.mark.req("A5", "A14", "A19", "K8")
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("writer", LIBRARIES.values(), ids=LIBRARIES.keys())
def test_records_of_every_shape_are_the_same_for_all_libraries(
    broker: ServerProcess, topic: str, writer: ModuleType, compression: str
) -> None:
    create(broker, topic)
    records = any_records(2_000, null_headers=writer is not kafka_python_driver)

    writer.produce(broker.bootstrap_servers, topic, records, compression=compression)

    for name, reader in LIBRARIES.items():
        assert reader.consume(broker.bootstrap_servers, topic, len(records)) == records, name


@pytest.mark.req("A5", "A14", "A19")
@pytest.mark.parametrize("writer", EVERYONE.values(), ids=EVERYONE.keys())
def test_lines_of_text_are_the_same_for_everyone(broker: ServerProcess, topic: str, writer: ModuleType) -> None:
    create(broker, topic)
    records = text_records(3_000)
    parts = [records[:600], records[600:1200], records[1200:1800], records[1800:2400], records[2400:]]

    for part, compression in zip(parts, COMPRESSIONS, strict=True):
        writer.produce(broker.bootstrap_servers, topic, part, compression=compression)

    came = {name: reader.consume(broker.bootstrap_servers, topic, len(records)) for name, reader in EVERYONE.items()}
    for name, read in came.items():
        assert timeless(read) == timeless(records), name
        assert [record.timestamp_ms for record in read] == [record.timestamp_ms for record in came["confluent"]], name


def timeless(records: list[Record]) -> list[Record]:
    return [record.without_time() for record in records]
