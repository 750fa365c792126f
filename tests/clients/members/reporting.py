"""What every member of this folder shares: the options it takes and the events it prints.

Both are those of Apache Kafka's VerifiableConsumer, so that a test need not know which client a member is: one JSON
object a line, named startup_complete, partitions_assigned, partitions_revoked, records_consumed, offsets_committed,
shutdown_complete. A member polls until SIGTERM, then leaves its group.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any

POLL_SECONDS = 0.1


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", required=True, help="a name, or with ^ in front a regular expression")
    parser.add_argument("--group-id", required=True)
    parser.add_argument("--group-instance-id")
    parser.add_argument("--group-protocol", default="classic")
    parser.add_argument("--session-timeout", type=int, default=6_000)
    parser.add_argument("--enable-autocommit", action="store_true")
    parser.add_argument("--reset-policy", default="earliest")
    parser.add_argument("--assignment-strategy", default="range")
    return parser.parse_args()


class Stop:
    """Whether the member was asked to leave."""

    def __init__(self) -> None:
        self.wanted = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.wanted = True


def emit(name: str, **details: Any) -> None:
    line = json.dumps({"timestamp": int(time.time() * 1000), "name": name, **details})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def places(partitions: Iterable[Any]) -> list[dict[str, Any]]:
    return [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]


class Consumed:
    """What one poll brought, as ranges of offsets; several of a partition that was taken and given back meanwhile."""

    def __init__(self) -> None:
        self.ranges: dict[tuple[str, int], list[list[int]]] = {}

    def add(self, topic: str, partition: int, offset: int) -> None:
        found = self.ranges.setdefault((topic, partition), [])
        if found and found[-1][1] + 1 == offset:
            found[-1][1] = offset
        else:
            found.append([offset, offset])

    def emit(self) -> None:
        rows = [
            {"topic": topic, "partition": partition, "minOffset": first, "maxOffset": last}
            for (topic, partition), ranges in self.ranges.items()
            for first, last in ranges
        ]
        emit("records_consumed", count=sum(row["maxOffset"] - row["minOffset"] + 1 for row in rows), partitions=rows)

    def next_offsets(self) -> dict[tuple[str, int], int]:
        """What to commit."""
        return {place: ranges[-1][1] + 1 for place, ranges in self.ranges.items()}


def emit_committed(offsets: dict[tuple[str, int], int], error: Exception | None = None) -> None:
    rows = [
        {"topic": topic, "partition": partition, "offset": offset} for (topic, partition), offset in offsets.items()
    ]
    if error is None:
        emit("offsets_committed", success=True, offsets=rows)
    else:
        emit("offsets_committed", success=False, offsets=rows, error=str(error))
