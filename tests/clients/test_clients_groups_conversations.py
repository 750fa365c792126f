"""Every answer about groups over the wire, held against what Apache Kafka 4.2 answered; and our topic in its tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.group_conversations import CONVERSATIONS
from harness.group_talk import SocketListener, Talk, listen
from harness.java import dump_log_segments
from harness.server import ServerProcess

RECORDED = json.loads((Path(__file__).parents[1] / "data/groups/apache-kafka-4.2-answers.json").read_text())
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"}


@pytest.fixture(scope="module")
def server(start_broker: Callable[..., ServerProcess]) -> ServerProcess:
    return start_broker(SETTINGS)


@pytest.fixture(scope="module")
def listener(server: ServerProcess) -> SocketListener:
    return listen(server.port)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_broker_answers_as_apache_kafka(listener: SocketListener, name: str) -> None:
    heard = CONVERSATIONS[name](Talk(listener, name))

    assert json.loads(json.dumps(heard)) == RECORDED[name]


@pytest.mark.req("K9")
def test_apache_kafkas_tools_read_our_offsets_topic(server: ServerProcess, listener: SocketListener) -> None:
    talk = Talk(listener, "dumped")
    member_id, generation = talk.stable()
    talk.commit(member_id, generation, offset=77)
    Talk(listener, "dumped-consumer").enter("consumer-1")

    segments = sorted(server.folder.glob("data/__consumer_offsets-0/*.log"))
    dump = dump_log_segments(*segments, arguments=("--offsets-decoder",))

    lines = [line for line in dump.splitlines() if '"dumped' in line]
    assert any('"generation":1' in line and f'"leader":"{member_id}"' in line for line in lines)
    assert any('"topic":"orders","partition":0' in line and '"offset":77' in line for line in lines)
    assert any('"memberEpoch":1' in line and '"memberId":"consumer-1"' in line for line in lines)
    assert "error" not in dump.lower()
