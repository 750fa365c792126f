"""Holds every conversation about groups with a real Apache Kafka and keeps its answers in `tests/data/groups`.

A tool for people, not a test: `python -m harness.record_apache_kafka_groups` in `tests`, after `make kafka`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness.apache_kafka import apache_kafka
from harness.group_conversations import CONVERSATIONS
from harness.group_talk import TOPICS, SocketListener, Talk
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest

TESTS = Path(__file__).resolve().parents[1]
OUTPUT = TESTS / "data/groups/apache-kafka-4.2-answers.json"
COORDINATOR_SECONDS_MAX = 60


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        server = apache_kafka(Path(folder))
        server.start()
        try:
            answers = hold_all(server.port)
        finally:
            server.stop()
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(heard)}" for name, heard in answers.items())
    OUTPUT.write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(answers)} conversations recorded")
    return 0


def hold_all(port: int) -> dict[str, Any]:
    listener = SocketListener(port, {})
    topics = [CreatableTopic(name, partitions, 1) for name, partitions in TOPICS.items()]
    for topic in listener.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7).topics:
        listener.ids[topic.name] = topic.topic_id
    deadline = time.monotonic() + COORDINATOR_SECONDS_MAX
    while listener.call(FindCoordinatorRequest(coordinator_keys=["any"]), 4).coordinators[0].error_code:
        assert time.monotonic() < deadline, "there is no coordinator"
        time.sleep(0.5)
    while Talk(listener, "probe").heartbeat("nobody", 1) != "UNKNOWN_MEMBER_ID":
        time.sleep(0.2)
    return {name: hold(Talk(listener, name)) for name, hold in CONVERSATIONS.items()}


if __name__ == "__main__":
    sys.exit(main())
