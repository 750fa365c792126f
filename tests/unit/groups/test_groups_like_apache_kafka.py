"""The same conversations that were once held with Apache Kafka 4.2, and must go the same way here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.group_conversations import CONVERSATIONS
from harness.group_talk import ShardListener, Talk

RECORDED = Path(__file__).parents[2] / "data/groups/apache-kafka-4.2-answers.json"


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_groups_answer_as_apache_kafka(name: str) -> None:
    recorded = json.loads(RECORDED.read_text())[name]

    heard = CONVERSATIONS[name](Talk(ShardListener(), name))

    assert json.loads(json.dumps(heard)) == recorded
