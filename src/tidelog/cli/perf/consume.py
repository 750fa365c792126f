"""Reads records as quickly as the cluster gives them and measures how many came. Knows nothing of how that is shown.

Reads columns where Arrow is installed and records where it is not; either way every record is decoded.
"""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.client.admin import Admin
from tidelog.client.blocking.consumer import Consumer
from tidelog.client.cluster import Cluster
from tidelog.client.core.subscription import RebalanceListener
from tidelog.client.security import security_in
from tidelog.model.ids import TopicName, TopicPartition

FETCH_BYTES: Final = 1024 * 1024
TIMEOUT_MS: Final = 10_000
REPORTING_INTERVAL_MS: Final = 5000
MILLISECONDS: Final = 1000.0
POLL_S: Final = 0.1
COLUMNS: Final = ("key", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumePlan:
    """What to read."""

    records: int
    # Properties of the consumer, by Kafka's names. With a group.id it joins the group, else it reads all partitions.
    settings: Mapping[str, Any]
    topic: str | None = None
    # A pattern of topics instead of one.
    include: str | None = None
    timeout_ms: int = TIMEOUT_MS
    reporting_interval_ms: int = REPORTING_INTERVAL_MS


@dataclass(slots=True)
class ConsumeTally:
    """What was read since a moment, or for ever."""

    began: float
    # By the clock on the wall, for people.
    began_at: float = field(default_factory=time.time)
    ended_at: float = 0.0
    records: int = 0
    size_bytes: int = 0
    elapsed_ms: float = 0.0
    # How long the group took to say what is ours; the rest of the time is for fetching.
    rebalance_ms: float = 0.0

    def end(self, now: float) -> None:
        self.ended_at = time.time()
        self.elapsed_ms = (now - self.began) * MILLISECONDS

    @property
    def fetch_ms(self) -> float:
        return max(0.0, self.elapsed_ms - self.rebalance_ms)

    @property
    def records_per_s(self) -> float:
        return self.records * MILLISECONDS / self.elapsed_ms if self.elapsed_ms else 0.0

    @property
    def bytes_per_s(self) -> float:
        return self.size_bytes * MILLISECONDS / self.elapsed_ms if self.elapsed_ms else 0.0


@dataclass(slots=True)
class ConsumeResult:
    """How it went."""

    total: ConsumeTally
    timed_out: bool = False


class _Assignments(RebalanceListener):
    """Measures how long it takes until the group says what is ours."""

    def __init__(self) -> None:
        self.waited_ms = 0.0
        self._since: float | None = time.perf_counter()

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        if self._since is not None:
            self.waited_ms += (time.perf_counter() - self._since) * MILLISECONDS
            self._since = None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._since = time.perf_counter()


def run_consume(
    plan: ConsumePlan,
    on_window: Callable[[ConsumeTally], None] = lambda _: None,
    on_read: Callable[[int], None] = lambda _: None,
) -> ConsumeResult:
    """Read until there were enough records, or none for too long. `on_read` is told how many there were so far."""
    poll = _way()
    with Consumer(dict(plan.settings)) as consumer:
        assignments = _begin(consumer, plan)
        now = time.perf_counter()
        result = ConsumeResult(ConsumeTally(now))
        total, window = result.total, ConsumeTally(now)
        last = now
        rebalanced_ms = 0.0
        while total.records < plan.records:
            records, size_bytes = poll(consumer)
            now = time.perf_counter()
            if records:
                last = now
                for tally in (total, window):
                    tally.records += records
                    tally.size_bytes += size_bytes
                on_read(total.records)
            elif (now - last) * MILLISECONDS > plan.timeout_ms:
                result.timed_out = True
                break
            if (now - window.began) * MILLISECONDS >= plan.reporting_interval_ms:
                window.end(now)
                window.rebalance_ms = assignments.waited_ms - rebalanced_ms
                rebalanced_ms = assignments.waited_ms
                on_window(window)
                window = ConsumeTally(now)
        total.end(time.perf_counter())
        total.rebalance_ms = assignments.waited_ms
    return result


def _begin(consumer: Consumer, plan: ConsumePlan) -> _Assignments:
    assignments = _Assignments()
    if plan.settings.get("group.id"):
        topics = None if plan.topic is None else [plan.topic]
        consumer.subscribe(topics, pattern=plan.include, listener=assignments)
        return assignments
    with Cluster(plan.settings["bootstrap.servers"], security=security_in(plan.settings)) as cluster:
        if plan.topic is not None:
            name = TopicName(plan.topic)
            found = [cluster.retry(lambda deadline: cluster.topic(name, deadline))]
        else:
            pattern = re.compile(plan.include or "")
            found = [topic for topic in Admin(cluster).list_topics() if pattern.fullmatch(topic.name)]
    consumer.assign(TopicPartition(topic.name, partition.index) for topic in found for partition in topic.partitions)
    assignments.on_partitions_assigned([])
    assignments.waited_ms = 0.0
    return assignments


def _way() -> Callable[[Consumer], tuple[int, int]]:
    """How to poll for a number of records and of bytes; what that needs is loaded before the time is taken."""
    if not (importlib.util.find_spec("pyarrow") and importlib.util.find_spec("numpy")):
        return _records
    import tidelog.client.arrow_poll
    import tidelog.client.arrow_write  # noqa: F401

    return _columns


def _columns(consumer: Consumer) -> tuple[int, int]:
    from tidelog.client.arrow_write import bytes_in

    batch = consumer.poll_arrow(POLL_S, COLUMNS)
    return batch.num_rows, sum(map(bytes_in, batch.columns))


def _records(consumer: Consumer) -> tuple[int, int]:
    records = consumer.poll(POLL_S)
    return len(records), sum(len(record.key or b"") + len(record.value or b"") for record in records)
