"""Our client over TLS and SASL, against Apache Kafka: what it accepts there is what any secured cluster accepts."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidelog
from harness.apache_kafka import apache_kafka, java_command
from harness.server import HOST, free_port
from tidelog import Admin, AsyncConsumer, Consumer, NewTopic, Producer, TopicPartition
from tidelog.client.errors import AuthenticationFailed
from tidelog.model.ids import PartitionIndex, TopicName

PASSWORD = "s3cret-word"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
CONTROLLERS = ("CONTROLLER", "PLAINTEXT")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Secured:
    """A broker with a listener for each way, and the certificate by which it is known."""

    def __init__(self, folder: Path) -> None:
        self.tls_port, self.sasl_port = free_port(), free_port()
        self.certificate, key = folder / "broker.pem", folder / "broker.key"
        subject = ["-subj", "/CN=tidelog", "-addext", f"subjectAltName=IP:{HOST}"]
        making = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
        subprocess.run([*making, "-keyout", key, "-out", self.certificate], check=True, capture_output=True)
        one_line = {path: path.read_text().strip().replace("\n", "\\n") for path in (key, self.certificate)}
        port, controller_port = free_port(), free_port()
        listeners = {"PLAINTEXT": port, "SSL": self.tls_port, "SASL_SSL": self.sasl_port}
        addresses = ",".join(f"{name}://{HOST}:{number}" for name, number in listeners.items())
        jaas = f'{PLAIN_MODULE} required user_anna="{PASSWORD}";'
        settings = {
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "listeners": f"{addresses},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": addresses,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in [*((each, each) for each in listeners), CONTROLLERS]
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": one_line[key],
            "ssl.keystore.certificate.chain": one_line[self.certificate],
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        }
        self.server = apache_kafka(folder / "kafka", settings, port=port)

    def tls(self) -> dict[str, Any]:
        servers = f"{HOST}:{self.tls_port}"
        return {"bootstrap_servers": servers, "security_protocol": "SSL", "ssl_cafile": str(self.certificate)}

    def sasl(self, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
        return {
            **self.tls(),
            "bootstrap_servers": f"{HOST}:{self.sasl_port}",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
            "sasl_username": "anna",
            "sasl_password": password,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    made.server.start()
    try:
        add_scram_user(made)
        yield made
    finally:
        made.server.stop()


def add_scram_user(made: Secured) -> None:
    """By a real tool of Apache Kafka, over the listener that asks for nothing."""
    for mechanism in MECHANISMS[1:]:
        alter = ["--alter", "--entity-type", "users", "--entity-name", "anna"]
        config = ["--add-config", f"{mechanism}=[password={PASSWORD}]"]
        server = ["--bootstrap-server", made.server.bootstrap_servers]
        command = java_command("kafka.admin.ConfigCommand", *server, *alter, *config)
        subprocess.run(command, check=True, capture_output=True)


def settings_of(secured: Secured, way: str) -> dict[str, Any]:
    return secured.tls() if way == "TLS" else secured.sasl(way)


@pytest.mark.parametrize("way", ["TLS", *MECHANISMS])
def test_records_pass_through_every_front(secured: Secured, topic: str, way: str) -> None:
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
def test_a_wrong_password_is_said_at_once(secured: Secured, topic: str, mechanism: str) -> None:
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


def test_a_broker_with_a_strangers_certificate_is_not_trusted(secured: Secured) -> None:
    settings = {**secured.tls(), "ssl_cafile": None}
    for client in (Producer, Admin):
        with client(**settings) as made, pytest.raises(AuthenticationFailed, match="certificate"):
            made.partitions_for("any") if isinstance(made, Producer) else made.list_topics()
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with Admin(**settings, ssl_context=trusting) as admin:
        assert isinstance(admin.list_topics(), list | dict | set | tuple)
