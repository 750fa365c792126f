"""Holds every conversation about groups with a real Apache Kafka and keeps its answers in `tests/data/groups`.

A tool for people, not a test: `python -m harness.record_apache_kafka_groups` in `tests`, after `make kafka`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from harness.apache_kafka import apache_kafka
from harness.group_conversations import CONVERSATIONS
from harness.group_talk import Talk, listen

TESTS = Path(__file__).resolve().parents[1]
OUTPUT = TESTS / "data/groups/apache-kafka-4.2-answers.json"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        server = apache_kafka(Path(folder))
        server.start()
        try:
            listener = listen(server.port)
            answers = {name: hold(Talk(listener, name)) for name, hold in CONVERSATIONS.items()}
        finally:
            server.stop()
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(heard)}" for name, heard in answers.items())
    OUTPUT.write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(answers)} conversations recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
