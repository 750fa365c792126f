"""The blocking producer: gathers records into batches, sends them to the leaders, retries, and tells how each ended.

It has no thread of its own. `send` puts a record into a batch and does what is due on the way (sends full batches,
reads answers); `poll` does what is due when no record comes; `flush` and `close` wait for everything.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.cluster import Cluster
from tidelog.client.connection import Connection
from tidelog.client.core.accumulator import Accumulator, Batch, OnDelivery, size_of
from tidelog.client.core.metadata import Node, Topic
from tidelog.client.core.partitioner import Partitioner, StickyPartitioner
from tidelog.client.core.record import Headers
from tidelog.client.core.sender import (
    GiveUp,
    Outcome,
    Sequences,
    TryAgain,
    Written,
    encode,
    newest_version,
    outcomes,
    produce_request,
)
from tidelog.client.deadline import Deadline
from tidelog.client.errors import ClientError, Rejected, RequestExpired, check
from tidelog.client.readiness import wait
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_OFFSET,
    NO_TIMESTAMP,
    PartitionIndex,
    ProducerEpoch,
    ProducerId,
    TopicName,
    TopicPartition,
)
from tidelog.wire.compression import Compression
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import ProduceRequest, ProduceResponse
from tidelog.wire.records import Record

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
BATCH_BYTES: Final = 256 * 1024
LINGER_S: Final = 0.01
BUFFER_BYTES: Final = 32 * 1024 * 1024
REQUEST_BYTES_MAX: Final = 1024 * 1024
DELIVERY_TIMEOUT_S: Final = 120.0
REQUEST_TIMEOUT_S: Final = 30.0
TRANSACTION_TIMEOUT_MS: Final = 60_000
# How long to wait on sockets before the clock is looked at again.
WAIT_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class _InFlight:
    connection: Connection
    correlation_id: int
    batches: list[Batch]
    topics: Mapping[TopicName, Topic]
    sent_at: float


class Producer:
    """Writes records. Not for two threads at once."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        compression: Compression = Compression.NONE,
        idempotent: bool = True,
        batch_bytes: int = BATCH_BYTES,
        linger_s: float = LINGER_S,
        buffer_bytes: int = BUFFER_BYTES,
        request_bytes_max: int = REQUEST_BYTES_MAX,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        partitioner: Partitioner | None = None,
        create_topics: bool = True,
    ) -> None:
        """`create_topics`: whether the broker may create an unknown topic, if it is set to."""
        self._cluster = cluster
        self._acks = acks
        self._compression = compression
        self._sequences = Sequences() if idempotent and acks == ACKS_ALL else None
        self._accumulator = Accumulator(min(batch_bytes, request_bytes_max), linger_s)
        self._buffer_bytes = buffer_bytes
        self._request_bytes_max = request_bytes_max
        self._delivery_timeout_s = delivery_timeout_s
        self._request_timeout_s = request_timeout_s
        self._partitioner = partitioner or StickyPartitioner(random.randrange, min(batch_bytes, request_bytes_max))
        self._create_topics = create_topics
        self._in_flight: list[_InFlight] = []
        self._retry_at = 0.0

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()

    def send(
        self,
        topic: TopicName,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: PartitionIndex | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Add a record. Blocks while the buffer is full; raises for a record that no broker would take.

        `on_delivery(metadata, error)` is called once, from a later `send`, `poll` or `flush`.
        """
        size_bytes = size_of(key, value, headers)
        if size_bytes > self._request_bytes_max:
            message = f"A record of {size_bytes} bytes is larger than the limit of {self._request_bytes_max}."
            raise Rejected(ErrorCode.MESSAGE_TOO_LARGE, message)
        if partition is None:
            partitions = self._partitions_of(topic)
            partition = self._partitioner.partition(topic, key, size_bytes, partitions)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        record = Record(0, timestamp_ms, key, value, headers)
        now = time.monotonic()
        full = self._accumulator.append(TopicPartition(topic, partition), record, size_bytes, on_delivery, now)
        if full or self._accumulator.size_bytes > self._buffer_bytes:
            self._turn(now)
        while self._accumulator.size_bytes > self._buffer_bytes:
            self._turn(time.monotonic(), wait_s=WAIT_S)

    def poll(self) -> float | None:
        """Send what has lingered, read what was answered. Gives the seconds until something is due again, if it is."""
        now = time.monotonic()
        self._turn(now)
        if self._in_flight:
            return WAIT_S
        due = self._accumulator.next_ready_at()
        return None if due is None else max(0.0, due - time.monotonic())

    def flush(self) -> None:
        """Send everything and wait until each record is written or given up."""
        while self._accumulator:
            self._turn(time.monotonic(), flushing=True, wait_s=WAIT_S)

    def close(self) -> None:
        self.flush()

    def _partitions_of(self, topic: TopicName) -> int:
        known = self._cluster.view.topics.get(topic)
        if known is None or not known.partitions:
            known = self._cluster.retry(
                lambda deadline: self._cluster.topic(topic, deadline, create=self._create_topics), await_topic=True
            )
        return len(known.partitions)

    def _turn(self, now: float, *, flushing: bool = False, wait_s: float = 0.0) -> None:
        """Send what is ready, then read what has come, waiting a little if asked to."""
        if now >= self._retry_at:
            self._send_ready(now, flushing)
        if wait_s and not self._in_flight and self._accumulator:
            time.sleep(min(wait_s, max(0.0, self._retry_at - now)))
        self._receive(wait_s)

    def _send_ready(self, now: float, flushing: bool) -> None:
        expired = [batch for batch in self._accumulator.ready(now, flushing) if self._is_late(batch, now)]
        for batch in expired:
            sentence = f"{len(batch.records)} records for {batch.partition} were not acknowledged in time."
            self._give_up(batch, RequestExpired(sentence))
        ready = list(self._accumulator.ready(now, flushing))
        if not ready:
            return
        try:
            self._identify()
            topics: dict[TopicName, Topic] = {}
            for node, batches in self._by_leader(ready, topics, now).items():
                for request in self._fitting(batches):
                    self._send(node, request, topics, now)
        except ClientError as error:
            if not error.retriable:
                for batch in list(self._accumulator.ready(now, flushing)):
                    self._give_up(batch, error)
            self._wait_before_retry(now)

    def _is_late(self, batch: Batch, now: float) -> bool:
        return now - batch.created_at > self._delivery_timeout_s

    def _identify(self) -> None:
        """An idempotent producer needs an id before it sends its first batch."""
        if self._sequences is None or self._sequences.known:
            return

        def ask(deadline: Deadline) -> InitProducerIdResponse:
            request = InitProducerIdRequest(None, TRANSACTION_TIMEOUT_MS)
            answer = self._cluster.call_any(request, InitProducerIdResponse, deadline)
            check(answer.error_code)
            return answer

        answer = self._cluster.retry(ask, self._cluster.deadline(self._delivery_timeout_s))
        self._sequences.begin(ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch))

    def _by_leader(
        self, batches: Iterable[Batch], topics: dict[TopicName, Topic], now: float
    ) -> Mapping[Node, list[Batch]]:
        """Group batches by whom to send them to, and keep what is known of their topics."""
        deadline = self._cluster.deadline(self._request_timeout_s)
        nodes: defaultdict[Node, list[Batch]] = defaultdict(list)
        for batch in batches:
            name = batch.partition.topic
            try:
                topics[name] = self._cluster.topic(name, deadline, create=self._create_topics)
                nodes[self._cluster.leader(batch.partition, deadline)].append(batch)
            except Rejected as error:
                if name in topics and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self._give_up(batch, error)
                else:
                    self._wait_before_retry(now)
        return nodes

    def _fitting(self, batches: list[Batch]) -> Iterable[list[Batch]]:
        """Batches of one leader in requests that are not too large."""
        request: list[Batch] = []
        size_bytes = 0
        for batch in batches:
            if request and size_bytes + batch.size_bytes > self._request_bytes_max:
                yield request
                request, size_bytes = [], 0
            request.append(batch)
            size_bytes += batch.size_bytes
        if request:
            yield request

    def _send(self, node: Node, batches: list[Batch], known: Mapping[TopicName, Topic], now: float) -> None:
        deadline = self._cluster.deadline(self._request_timeout_s)
        connection = self._cluster.connection(node, deadline)
        topics = {batch.partition.topic: known[batch.partition.topic] for batch in batches}
        version = connection.version_of(ProduceRequest, newest_version(topics.values()))
        for batch in batches:
            encode(batch, self._compression, self._sequences)
            self._accumulator.sent(batch)
        request = produce_request(batches, topics, self._acks, int(self._request_timeout_s * 1000))
        try:
            correlation_id = connection.send(request, version, deadline, answered=self._acks != ACKS_NONE)
        except ClientError:
            for batch in batches:
                self._accumulator.returned(batch)
            raise
        if self._acks == ACKS_NONE:
            for batch in batches:
                self._accumulator.ended(batch)
                batch.succeed(NO_OFFSET, NO_TIMESTAMP)
        else:
            self._in_flight.append(_InFlight(connection, correlation_id, batches, topics, now))

    def _receive(self, wait_s: float) -> None:
        if not self._in_flight:
            return
        if wait_s:
            wait([sent.connection for sent in self._in_flight if not sent.connection.closed], [], wait_s)
        still: list[_InFlight] = []
        now = time.monotonic()
        for sent in self._in_flight:
            try:
                answer = None if sent.connection.closed else sent.connection.take(sent.correlation_id, ProduceResponse)
            except ClientError:
                answer = None
            if answer is not None:
                self._conclude(sent, answer, now)
            elif sent.connection.closed or now - sent.sent_at > self._request_timeout_s:
                # Nobody knows whether it arrived: only the same bytes again, on a new connection, are safe.
                sent.connection.close()
                self._return(sent.batches, now)
            else:
                still.append(sent)
        self._in_flight = still

    def _conclude(self, sent: _InFlight, answer: ProduceResponse, now: float) -> None:
        results = outcomes(answer, {topic.id: name for name, topic in sent.topics.items()})
        for batch in sent.batches:
            outcome: Outcome | None = results.get(batch.partition)
            match outcome:
                case Written(base_offset, log_append_time_ms):
                    self._accumulator.ended(batch)
                    batch.succeed(base_offset, log_append_time_ms)
                case GiveUp(error):
                    self._give_up(batch, error)
                case TryAgain() | None:
                    self._return([batch], now)

    def _return(self, batches: list[Batch], now: float) -> None:
        for batch in batches:
            self._accumulator.returned(batch)
        self._cluster.forget({batch.partition.topic for batch in batches})
        self._wait_before_retry(now)

    def _give_up(self, batch: Batch, error: ClientError) -> None:
        if self._sequences is not None and batch.encoded is not None:
            self._sequences.end()
        self._accumulator.ended(batch)
        batch.fail(error)

    def _wait_before_retry(self, now: float) -> None:
        self._retry_at = now + WAIT_S
