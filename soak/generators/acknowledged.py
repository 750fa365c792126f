"""librdkafka sends single records to one partition at a steady rate and notes when each was acknowledged.

What a user notices of a failover or a restart: the longest time in which nothing was. Times are those of the machine's
monotonic clock, which all its processes share.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from soak.generators import UntilAsked, work_from_arguments

FLUSH_SECONDS_MAX = 60.0


class Work(msgspec.Struct, frozen=True):
    bootstrap_servers: str
    topic: str
    partition: int = 0
    per_second: int = 200
    settings: dict[str, str] = {}


class Acknowledged(msgspec.Struct, frozen=True):
    """When each record was sent and acknowledged, in the order of the latter; how many were not."""

    times: list[tuple[float, float]]
    failed: int

    def seconds_after(self, moment: float) -> float:
        """Seconds from a moment to the first acknowledgement of a record that was sent after it."""
        return min(acknowledged for sent, acknowledged in self.times if sent > moment) - moment

    def longest_gap(self, since: float = 0.0) -> float:
        """The longest time between two acknowledgements."""
        times = [acknowledged for _, acknowledged in self.times if acknowledged >= since]
        return max(later - earlier for earlier, later in pairwise(times))


def run(work: Work) -> Acknowledged:
    until = UntilAsked()
    times: list[tuple[float, float]] = []
    failed = 0

    def delivered(error: KafkaError | None, message: Message) -> None:
        nonlocal failed
        if error is None:
            times.append((float(message.value() or b""), time.monotonic()))
        else:
            failed += 1

    settings = {"bootstrap.servers": work.bootstrap_servers, "acks": "all", "linger.ms": 0, "log_level": 0}
    producer = Producer({**settings, **work.settings})
    began = time.monotonic()
    number = 0
    while not until.asked:
        now = time.monotonic()
        if number < (now - began) * work.per_second:
            producer.produce(work.topic, repr(now), partition=work.partition, on_delivery=delivered)
            number += 1
        producer.poll(0.002)
    producer.flush(FLUSH_SECONDS_MAX)
    return Acknowledged(times, failed)


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.encode(run(work_from_arguments(Work))).decode())
