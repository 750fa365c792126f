"""Records what Apache Kafka's own classes write for random messages, by running `EncodeMessages.java` with its jars.

A tool for people, not a test: it compares every message of every version, and keeps those that have no other oracle in
`tests/data/protocol/apache-kafka-bytes.jsonl`. Needs Java 17.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

import oracle_kafka_python
import oracle_kio
from kafka_json import from_kafka_json, to_kafka_json
from protocol_facts import FACTS, declared_fact, declared_messages
from random_messages import random_message

from tidelog.wire.compiler import encode

SEEDS = range(3)
REMOVED_IN_4 = ("ControlledShutdown", "LeaderAndIsr", "StopReplica", "UpdateMetadata")
Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", required=True, help="class path of Apache Kafka 4.2")
    parser.add_argument("--old-clients", required=True, help="kafka-clients 3.9")
    options = parser.parse_args()
    rows = [
        {"name": name, "version": version, "value": to_kafka_json(random_message(message, version, seed), version)}
        for name, message in sorted(declared_messages().items())
        for version in sorted(declared_fact(message).versions)
        for seed in SEEDS
    ]
    old = [row for row in rows if row["name"].startswith(REMOVED_IN_4)]
    new = [row for row in rows if not row["name"].startswith(REMOVED_IN_4)]
    record(new, options.jars)
    record(old, os.pathsep.join([options.old_clients, options.jars]))
    different = [row for row in rows if row["bytes"] != ours(row)]
    for row in different:
        print(f"{row['name']} v{row['version']}: {json.dumps(row['value'])}", file=sys.stderr)
    kept = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in new + old if not has_oracle(row)]
    # An empty message is the same for every seed.
    (FACTS / "apache-kafka-bytes.jsonl").write_text("".join(f"{line}\n" for line in dict.fromkeys(kept)))
    print(f"{len(rows)} messages compared, {len(different)} differ")
    return 1 if different else 0


def record(rows: list[Row], class_path: str) -> None:
    """Add the bytes to each row."""
    command = ["java", "-cp", class_path, str(FACTS / "EncodeMessages.java")]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    for row, line in zip(rows, done.stdout.splitlines(), strict=True):
        row["bytes"] = line


def ours(row: Row) -> str:
    message = declared_messages()[row["name"]]
    return encode(from_kafka_json(message, row["version"], row["value"]), row["version"]).hex()


def has_oracle(row: Row) -> bool:
    name, version = row["name"], row["version"]
    return oracle_kafka_python.knows(name, version) or oracle_kio.knows(name, version)


if __name__ == "__main__":
    sys.exit(main())
