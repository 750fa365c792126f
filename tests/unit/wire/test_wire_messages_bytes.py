"""Every message in every version, byte for byte: against the encoders of kafka-python and kio, and against bytes that
Apache Kafka's own classes wrote where neither of them knows the message.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from types import ModuleType
from typing import Any

import oracle_kafka_python
import oracle_kio
import pytest
from kafka_json import from_kafka_json, to_kafka_json
from protocol_facts import FACTS, declared_fact, declared_messages
from random_messages import random_message

from tidelog.wire.compiler import decode, encode
from tidelog.wire.schema import Message

SEEDS = range(6)
NAMES = sorted(declared_messages())


def versions_of(name: str) -> list[int]:
    return sorted(declared_fact(declared_messages()[name]).versions)


def instances(name: str, version: int) -> list[Message]:
    return [random_message(declared_messages()[name], version, seed) for seed in SEEDS]


@cache
def written_by_apache_kafka() -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Values as JSON, and the bytes that Apache Kafka 4.2 (3.9 for what ZooKeeper mode needs) wrote for them."""
    rows = [json.loads(line) for line in (FACTS / "apache-kafka-bytes.jsonl").read_text().splitlines()]
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["name"], row["version"]), []).append(row)
    return found


def known_to(oracle: ModuleType) -> list[str]:
    return [name for name in NAMES if any(oracle.knows(name, version) for version in versions_of(name))]


@pytest.mark.parametrize("name", known_to(oracle_kafka_python))
def test_kafka_python_writes_the_same_bytes(name: str) -> None:
    for version in versions_of(name):
        if oracle_kafka_python.knows(name, version):
            for message in instances(name, version):
                expected = oracle_kafka_python.encoded(message, version)
                assert encode(message, version).hex() == expected.hex(), f"v{version}: {message}"
                assert decode(type(message), version, expected) == message


@pytest.mark.parametrize("name", known_to(oracle_kio))
def test_kio_writes_the_same_bytes(name: str) -> None:
    for version in versions_of(name):
        if oracle_kio.knows(name, version):
            for message in instances(name, version):
                expected = oracle_kio.encoded(message, version)
                assert encode(message, version).hex() == expected.hex(), f"v{version}: {message}"
                assert decode(type(message), version, expected) == message


@pytest.mark.parametrize(("name", "version"), sorted(written_by_apache_kafka()))
def test_apache_kafka_wrote_the_same_bytes(name: str, version: int) -> None:
    message = declared_messages()[name]
    for row in written_by_apache_kafka()[name, version]:
        expected = bytes.fromhex(row["bytes"])
        assert encode(from_kafka_json(message, version, row["value"]), version).hex() == row["bytes"]
        assert to_kafka_json(decode(message, version, expected), version) == row["value"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_back(name: str) -> None:
    for version in versions_of(name):
        for message in instances(name, version):
            assert decode(type(message), version, encode(message, version)) == message


def test_every_message_in_every_version_has_an_oracle() -> None:
    oracles: Counter[str] = Counter()
    without = []
    for name in NAMES:
        for version in versions_of(name):
            known = {
                "kafka-python": oracle_kafka_python.knows(name, version),
                "kio": oracle_kio.knows(name, version),
                "Apache Kafka": (name, version) in written_by_apache_kafka(),
            }
            oracles.update(oracle for oracle, knows in known.items() if knows)
            if not any(known.values()):
                without.append(f"{name} v{version}")
    print(f"messages and versions by oracle: {dict(oracles)}")
    assert without == []
    assert oracles["kafka-python"] > 350 and oracles["kio"] > 600 and oracles["Apache Kafka"] > 140
