"""Our client over TLS and SASL, against Apache Kafka: what it accepts there is what any secured cluster accepts."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidelog
from harness.secured_kafka import MECHANISMS, SecuredKafka
from tidelog import Admin, AsyncConsumer, Consumer, NewTopic, Producer, TopicPartition
from tidelog.cli.main import main
from tidelog.client.errors import AuthenticationFailed
from tidelog.model.ids import PartitionIndex, TopicName


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    made = SecuredKafka(tmp_path_factory.mktemp("secured"))
    made.server.start()
    try:
        made.add_scram_user()
        yield made
    finally:
        made.server.stop()


def settings_of(secured: SecuredKafka, way: str) -> dict[str, Any]:
    return secured.tls() if way == "TLS" else secured.sasl(way)


@pytest.mark.parametrize("way", ["TLS", *MECHANISMS])
def test_records_pass_through_every_front(secured: SecuredKafka, topic: str, way: str) -> None:
    settings = settings_of(secured, way)
    place = TopicPartition(TopicName(topic), PartitionIndex(0))
    # Longer than many TLS records.
    values = [b"%d" % number * 50_000 for number in range(5)]
    with Admin(**settings) as admin:
        admin.create_topics([NewTopic(place.topic, 1, 1)])
    with Producer(**settings) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
    with Consumer(auto_offset_reset="earliest", group_id=topic, **settings) as consumer:
        consumer.subscribe([topic])
        assert [next(consumer).value for _ in values] == values

    async def read() -> list[bytes]:
        async with AsyncConsumer(auto_offset_reset="earliest", **settings) as consumer:
            await consumer.assign([place])
            return [(await anext(consumer)).value for _ in values]

    assert asyncio.run(read()) == values
    servers = settings.pop("bootstrap_servers")
    assert tidelog.read_topic(topic, servers, **settings).to_arrow().column("value").to_pylist() == values


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_said_at_once(secured: SecuredKafka, topic: str, mechanism: str) -> None:
    settings = secured.sasl(mechanism, "wrong")
    with Producer(**settings) as producer, pytest.raises(AuthenticationFailed):
        producer.send(topic, b"never")
    with Consumer(**settings) as consumer:
        consumer.assign([TopicPartition(TopicName(topic), PartitionIndex(0))])
        with pytest.raises(AuthenticationFailed):
            for _ in range(10):
                consumer.poll(1.0)
    with Admin(**settings) as admin, pytest.raises(AuthenticationFailed):
        admin.list_topics()


def test_a_broker_with_a_strangers_certificate_is_not_trusted(secured: SecuredKafka) -> None:
    settings = {**secured.tls(), "ssl_cafile": None}
    for client in (Producer, Admin):
        with client(**settings) as made, pytest.raises(AuthenticationFailed, match="certificate"):
            made.partitions_for("any") if isinstance(made, Producer) else made.list_topics()
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with Admin(**settings, ssl_context=trusting) as admin:
        assert isinstance(admin.list_topics(), list | dict | set | tuple)


def test_commands_take_the_properties_of_javas_clients(
    secured: SecuredKafka, topic: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in secured.sasl_properties("SCRAM-SHA-512").items()))
    (tmp_path / "lines").write_text("ebb\nflood\n")
    ours = ["-b", secured.sasl_servers, "--command-config", str(file)]
    kafkas = ["--bootstrap-server", secured.sasl_servers, "--command-config", str(file)]

    assert run("topics", "create", topic, "--partitions", "1", *ours) == 0
    assert run("produce", topic, "--file", str(tmp_path / "lines"), *ours) == 0
    load = ["--num-records", "3", "--record-size", "4", "--throughput", "-1"]
    assert run("kafka-producer-perf-test", "--topic", topic, *load, *kafkas) == 0
    capsysbinary.readouterr()
    assert run("consume", topic, "--max", "2", *ours) == 0
    assert capsysbinary.readouterr().out.split() == [b"ebb", b"flood"]
    assert run("kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "5", *kafkas) == 0
    assert {b"ebb", b"flood"} < set(capsysbinary.readouterr().out.split())
    assert run("kafka-topics", "--list", *kafkas) == 0
    assert topic.encode() in capsysbinary.readouterr().out.split()
    assert run("sql", f'SELECT count(*) AS n FROM "{topic}"', "--bytes", "--format", "json", *ours) == 0
    assert b'"n": 5' in capsysbinary.readouterr().out


def run(*arguments: str) -> int:
    """A command in this process: what is started anew each time costs more than what is tested."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)
