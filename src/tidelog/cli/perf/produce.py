"""Writes records as quickly as the cluster takes them, or at a given rate, and measures when each was acknowledged.

Without a rate, batches are encoded before the measurement begins and sent again and again, so that the cluster is
measured rather than Python; with one, records are sent one by one. Knows nothing of how results are shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.perf.latencies import Latencies
from tidelog.cli.perf.payloads import Payloads
from tidelog.client.blocking.producer import Producer
from tidelog.client.core.pending import EncodedRecords
from tidelog.client.core.record_encoder import encode_record

if TYPE_CHECKING:
    from tidelog.client.core.record import RecordMetadata
    from tidelog.client.errors import ClientError

# A batch is as large as the setting batch.size says; without it, as large as a broker takes well.
BATCH_BYTES: Final = 512 * 1024
# So many different batches of random payloads are made, and then taken in turn.
BATCHES_MADE: Final = 16
REPORTING_INTERVAL_MS: Final = 5000
MILLISECONDS: Final = 1000.0
NANOSECONDS_IN_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePlan:
    """What to write."""

    topic: str
    records: int
    payloads: Payloads
    # Properties of the producer, by Kafka's names.
    settings: Mapping[str, Any]
    # Records a second; 0 or less for no limit.
    throughput: float = -1
    warm_up_records: int = 0
    reporting_interval_ms: int = REPORTING_INTERVAL_MS
    # How long a transaction is kept open; None without transactions.
    transaction_ms: int | None = None


@dataclass(slots=True)
class Tally:
    """What was acknowledged since a moment, or for ever."""

    began: float
    records: int = 0
    size_bytes: int = 0
    latencies: Latencies = field(default_factory=Latencies)
    elapsed_ms: float = 0.0

    def add(self, records: int, size_bytes: int, latency_ms: float) -> None:
        self.records += records
        self.size_bytes += size_bytes
        self.latencies.add(latency_ms, records)

    @property
    def records_per_s(self) -> float:
        return self.records * MILLISECONDS / self.elapsed_ms if self.elapsed_ms else 0.0

    @property
    def bytes_per_s(self) -> float:
        return self.size_bytes * MILLISECONDS / self.elapsed_ms if self.elapsed_ms else 0.0


@dataclass(slots=True)
class ProduceResult:
    """How it went."""

    total: Tally
    # Without the first records, which warmed things up.
    steady: Tally | None
    failed: int = 0
    first_error: ClientError | None = None
    transactions: int = 0


class _Recorder:
    """Told by the producer's thread about every batch or record."""

    def __init__(self, plan: ProducePlan, on_window: Callable[[Tally], None], on_steady: Callable[[], None]) -> None:
        began = time.perf_counter()
        self.result = ProduceResult(Tally(began), None)
        self._plan = plan
        self._window = Tally(began)
        self._on_window = on_window
        self._on_steady = on_steady
        self._lock = threading.Lock()

    def ended(
        self,
        first: int,
        records: int,
        size_bytes: int,
        began: float,
        metadata: RecordMetadata | None,
        error: ClientError | None,
    ) -> None:
        now = time.perf_counter()
        with self._lock:
            if error is not None:
                self.result.failed += records
                self.result.first_error = self.result.first_error or error
                return
            latency_ms = (now - began) * MILLISECONDS
            for tally in (self.result.total, self._window, self._steady(first, began)):
                if tally is not None:
                    tally.add(records, size_bytes, latency_ms)
            self._window.elapsed_ms = (now - self._window.began) * MILLISECONDS
            if self._window.elapsed_ms >= self._plan.reporting_interval_ms:
                self._on_window(self._window)
                self._window = Tally(now)

    def _steady(self, first: int, began: float) -> Tally | None:
        warm_up = self._plan.warm_up_records
        if not warm_up or first < warm_up:
            return None
        if self.result.steady is None:
            self.result.steady = Tally(began)
            self._on_steady()
        return self.result.steady

    def finish(self) -> ProduceResult:
        now = time.perf_counter()
        for tally in (self.result.total, self.result.steady):
            if tally is not None:
                tally.elapsed_ms = (now - tally.began) * MILLISECONDS
        return self.result


def run_produce(
    plan: ProducePlan,
    on_window: Callable[[Tally], None] = lambda _: None,
    on_steady: Callable[[], None] = lambda: None,
    on_sent: Callable[[int], None] = lambda _: None,
) -> ProduceResult:
    """Write the records and wait until each is acknowledged or given up. `on_sent` hears how many were handed over."""
    with Producer(dict(plan.settings)) as producer:
        partitions = len(producer.partitions_for(plan.topic))
        batches = _Batches(plan) if plan.throughput <= 0 else None
        if plan.transaction_ms is not None:
            producer.init_transactions()
        recorder = _Recorder(plan, on_window, on_steady)
        transactions = _Transactions(producer, plan.transaction_ms)
        if batches is None:
            _one_by_one(producer, plan, recorder, transactions, on_sent)
        else:
            for turn, (first, records, size_bytes) in enumerate(batches):
                transactions.before_sending()
                on_delivery = partial(recorder.ended, first, records.count, size_bytes, time.perf_counter())
                producer.send_encoded(plan.topic, turn % partitions, records, on_delivery)
                on_sent(first + records.count)
        transactions.end()
        producer.flush()
        result = recorder.finish()
        result.transactions = transactions.committed
        return result


def _one_by_one(
    producer: Producer,
    plan: ProducePlan,
    recorder: _Recorder,
    transactions: _Transactions,
    on_sent: Callable[[int], None],
) -> None:
    began = time.perf_counter()
    for number in range(plan.records):
        due = began + number / plan.throughput
        ahead_s = due - time.perf_counter()
        if ahead_s > 0:
            time.sleep(ahead_s)
        transactions.before_sending()
        value = plan.payloads.value(number)
        on_delivery = partial(recorder.ended, number, 1, len(value), time.perf_counter())
        producer.send(plan.topic, value, on_delivery=on_delivery)
        on_sent(number + 1)


class _Batches:
    """The records of a plan, encoded: (number of the first, records, bytes of their values)."""

    def __init__(self, plan: ProducePlan) -> None:
        self._plan = plan
        batch_bytes = int(plan.settings.get("batch.size", BATCH_BYTES))
        largest = int(plan.settings.get("max.request.size", 1024 * 1024)) - 1024
        self._batch_bytes = min(batch_bytes, largest)
        made: list[tuple[list[bytes], int]] = []
        if plan.payloads.repeats:
            first = self._make(0, plan.records)
            made = [first, *(self._make(0, len(first[0])) for _ in range(BATCHES_MADE - 1))]
        self._made = [(b"".join(parts), len(parts), size_bytes) for parts, size_bytes in made]

    def __iter__(self) -> Iterator[tuple[int, EncodedRecords, int]]:
        done, turn, total = 0, 0, self._plan.records
        while done < total:
            if self._made and self._made[turn % len(self._made)][1] <= total - done:
                body, count, size_bytes = self._made[turn % len(self._made)]
            else:
                parts, size_bytes = self._make(done, total - done)
                body, count = b"".join(parts), len(parts)
            now_ms = time.time_ns() // NANOSECONDS_IN_MS
            yield done, EncodedRecords(body, count, now_ms, now_ms), size_bytes
            done += count
            turn += 1

    def _make(self, number: int, records_max: int) -> tuple[list[bytes], int]:
        """Records until the batch is full: their bytes, and those of the values alone."""
        parts: list[bytes] = []
        encoded_bytes = size_bytes = 0
        while len(parts) < records_max:
            value = self._plan.payloads.value(number + len(parts))
            encoded = encode_record(len(parts), 0, None, value, ())
            if parts and encoded_bytes + len(encoded) > self._batch_bytes:
                break
            parts.append(encoded)
            encoded_bytes += len(encoded)
            size_bytes += len(value)
        return parts, size_bytes


class _Transactions:
    """One transaction after the other, each as long as was asked for; nothing if none was."""

    def __init__(self, producer: Producer, duration_ms: int | None) -> None:
        self.committed = 0
        self._producer = producer
        self._duration_s = None if duration_ms is None else duration_ms / MILLISECONDS
        self._began: float | None = None

    def before_sending(self) -> None:
        if self._duration_s is None:
            return
        now = time.perf_counter()
        if self._began is not None and now - self._began >= self._duration_s:
            self.end()
        if self._began is None:
            self._producer.begin_transaction()
            self._began = now

    def end(self) -> None:
        if self._began is not None:
            self._producer.commit_transaction()
            self._began = None
            self.committed += 1
