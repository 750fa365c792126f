"""The blocking consumer without a group: told which partitions to read and from where, it fetches from their leaders.

One fetch per broker is on its way at a time. Not for two threads at once.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tidelog.client.admin import accepted, list_offsets
from tidelog.client.cluster import Cluster
from tidelog.client.connection import Connection
from tidelog.client.core.described import EARLIEST, LATEST
from tidelog.client.core.fetch_session import FetchSession, Limits, Wanted
from tidelog.client.core.metadata import Node
from tidelog.client.core.record import ConsumerRecord
from tidelog.client.core.record_reader import read_partition
from tidelog.client.deadline import Deadline
from tidelog.client.errors import BrokerUnreachable, ClientError, Rejected, RequestExpired, code_of
from tidelog.client.readiness import wait
from tidelog.model.errors import RETRIABLE, ErrorCode, ProtocolError
from tidelog.model.ids import NO_EPOCH, NodeId, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

FETCH_BYTES_MAX: Final = 50 * 1024 * 1024
PARTITION_BYTES_MAX: Final = 1024 * 1024
FETCH_WAIT_S: Final = 0.5
REQUEST_TIMEOUT_S: Final = 30.0
RETRY_AFTER_S: Final = 0.1
# How long a topic may be unknown before it counts as missing: one just created is not known to every broker at once.
TOPIC_WAIT_S: Final = 1.0


class OffsetReset(Enum):
    """Where to go when the position is outside of what the partition holds."""

    EARLIEST = EARLIEST
    LATEST = LATEST


@dataclass(frozen=True, slots=True)
class _InFlight:
    connection: Connection
    correlation_id: int
    asked: Mapping[TopicPartition, Wanted]
    sent_at: float


class Consumer:
    """Reads records."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        fetch_bytes_max: int = FETCH_BYTES_MAX,
        partition_bytes_max: int = PARTITION_BYTES_MAX,
        fetch_wait_s: float = FETCH_WAIT_S,
        fetch_bytes_min: int = 1,
        read_committed: bool = False,
        offset_reset: OffsetReset | None = OffsetReset.LATEST,
        sessions: bool = True,
    ) -> None:
        """`sessions`: whether brokers may remember what is read, so that requests stay small (KIP-227)."""
        self._cluster = cluster
        self._partition_bytes_max = partition_bytes_max
        self._limits = Limits(int(fetch_wait_s * 1000), fetch_bytes_min, fetch_bytes_max, read_committed)
        self._offset_reset = offset_reset
        self._with_sessions = sessions
        self._positions: dict[TopicPartition, Offset] = {}
        self._high_watermarks: dict[TopicPartition, Offset] = {}
        self._sessions: dict[NodeId, FetchSession] = {}
        self._in_flight: dict[NodeId, _InFlight] = {}
        self._retry_at = 0.0

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return list(self._positions)

    def assign(self, positions: Mapping[TopicPartition, Offset]) -> None:
        """Read these partitions from these offsets, and no others."""
        self._positions = dict(positions)

    def add(self, positions: Mapping[TopicPartition, Offset]) -> None:
        """Read these partitions, too."""
        self._positions.update(positions)

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        """Go on from an offset. What is on its way from elsewhere is dropped."""
        assert partition in self._positions, partition
        self._positions[partition] = offset

    def seek_to_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> None:
        """Go to the first record at or after a time; to the end where there is none. EARLIEST and LATEST work, too."""
        self._positions.update(self.offsets_at(partitions, timestamp_ms))

    def seek_to_last(self, partitions: Iterable[TopicPartition], records: int) -> None:
        """Go to where about this many records remain in each partition, at most all of them."""
        wanted = list(partitions)
        first = self.offsets_at(wanted, EARLIEST)
        end = self.offsets_at(wanted, LATEST)
        for partition in wanted:
            self._positions[partition] = Offset(max(first[partition], end[partition] - records))

    def position(self, partition: TopicPartition) -> Offset:
        """The offset of the next record."""
        return self._positions[partition]

    def high_watermark(self, partition: TopicPartition) -> Offset | None:
        """Where the partition ended when it was last read."""
        return self._high_watermarks.get(partition)

    def offsets_at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, Offset]:
        """The offset at a time in each partition; the end where no record is that young."""
        wanted = list(partitions)
        found = self._offsets_at(wanted, timestamp_ms)
        late = [partition for partition in wanted if found[partition] < 0]
        return found | (self._offsets_at(late, LATEST) if late else {})

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Every partition of a topic."""
        found = self._cluster.retry(
            lambda deadline: self._cluster.topic(TopicName(topic), deadline),
            self._cluster.deadline(TOPIC_WAIT_S),
            await_topic=True,
        )
        return [TopicPartition(found.name, partition.index) for partition in found.partitions]

    def poll(self, timeout_s: float) -> list[ConsumerRecord]:
        """Records as soon as there are any, none when the time is up. Raises for what no retry can mend."""
        deadline = Deadline(timeout_s)
        while True:
            if time.monotonic() >= self._retry_at:
                self._send(deadline)
            records = self._receive(deadline)
            if records or deadline.remaining_s() <= 0:
                return records

    def _offsets_at(self, partitions: list[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, Offset]:
        answers = list_offsets(
            self._cluster,
            dict.fromkeys(partitions, timestamp_ms),
            self._limits.read_committed,
            self._cluster.deadline(),
        )
        return {partition: accepted(answer).offset for partition, answer in answers.items()}

    def _send(self, deadline: Deadline) -> None:
        """A fetch to each broker that leads something we read and that has none on its way."""
        try:
            for node, wanted in self._by_leader().items():
                if node.id not in self._in_flight:
                    self._fetch(node, wanted)
        except ClientError as error:
            if not error.retriable or _is_gone(error):
                raise
            self._later()

    def _by_leader(self) -> dict[Node, dict[TopicPartition, Wanted]]:
        deadline = self._cluster.deadline()
        nodes: defaultdict[Node, dict[TopicPartition, Wanted]] = defaultdict(dict)
        for partition, offset in self._positions.items():
            leader = self._cluster.leader(partition, deadline)
            known = self._cluster.view.partition(partition)
            epoch = NO_EPOCH if known is None else known.leader_epoch
            nodes[leader][partition] = Wanted(offset, epoch, self._partition_bytes_max)
        return nodes

    def _fetch(self, node: Node, wanted: dict[TopicPartition, Wanted]) -> None:
        deadline = self._cluster.deadline(REQUEST_TIMEOUT_S)
        connection = self._cluster.connection(node, deadline)
        session = self._sessions.get(node.id)
        if session is None:
            session = self._sessions[node.id] = FetchSession(enabled=self._with_sessions)
        topics = {partition.topic: self._cluster.view.topics[partition.topic] for partition in wanted}
        request = session.request(wanted, topics, self._limits)
        version = connection.version_of(FetchRequest, session.newest_version())
        try:
            correlation_id = connection.send(request, version, deadline)
        except ClientError:
            session.reset()
            raise
        self._in_flight[node.id] = _InFlight(connection, correlation_id, wanted, time.monotonic())

    def _receive(self, deadline: Deadline) -> list[ConsumerRecord]:
        waiting = [sent.connection for sent in self._in_flight.values() if not sent.connection.closed]
        pause_s = min(deadline.remaining_s(), max(0.0, self._retry_at - time.monotonic()) or REQUEST_TIMEOUT_S)
        if waiting:
            wait(waiting, [], pause_s)
        else:
            time.sleep(min(pause_s, RETRY_AFTER_S))
        records: list[ConsumerRecord] = []
        for node_id, sent in list(self._in_flight.items()):
            try:
                answer = sent.connection.take(sent.correlation_id, FetchResponse)
            except (BrokerUnreachable, RequestExpired):
                answer = None
            if answer is not None:
                del self._in_flight[node_id]
                records += self._read(node_id, sent, answer)
            elif sent.connection.closed or time.monotonic() - sent.sent_at > REQUEST_TIMEOUT_S:
                del self._in_flight[node_id]
                sent.connection.close()
                self._sessions[node_id].reset()
                self._cluster.forget()
                self._later()
        return records

    def _read(self, node_id: NodeId, sent: _InFlight, answer: FetchResponse) -> list[ConsumerRecord]:
        session = self._sessions[node_id]
        if not session.answered(answer):
            self._cluster.forget({partition.topic for partition in sent.asked})
            return []
        records: list[ConsumerRecord] = []
        for topic in answer.responses:
            name = session.name_of(topic.topic, topic.topic_id)
            for data in topic.partitions:
                partition = TopicPartition(name, PartitionIndex(data.partition_index))
                asked = sent.asked.get(partition)
                # An answer from before a seek, or for a partition that is not ours any more, counts for nothing.
                if asked is not None and self._positions.get(partition) == asked.offset:
                    records += self._read_partition(partition, data, asked.offset)
        return records

    def _read_partition(self, partition: TopicPartition, data: PartitionData, position: Offset) -> list[ConsumerRecord]:
        code = code_of(data.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._reset(partition, position)
            return []
        if code in RETRIABLE:
            self._cluster.forget([partition.topic])
            self._later()
            return []
        if code:
            raise Rejected(code, None)
        self._high_watermarks[partition] = Offset(data.high_watermark)
        if not data.records:
            return []
        aborted = data.aborted_transactions if self._limits.read_committed else None
        try:
            found = read_partition(partition, data.records, position, aborted)
        except ProtocolError as error:
            raise Rejected(error.code, f"{partition} cannot be read at offset {position}: {error}") from None
        self._positions[partition] = found.next_offset
        return found.records

    def _reset(self, partition: TopicPartition, position: Offset) -> None:
        if self._offset_reset is None:
            message = f"Offset {position} of {partition} is outside of what the partition holds."
            raise Rejected(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        self._positions.update(self._offsets_at([partition], self._offset_reset.value))

    def _later(self) -> None:
        self._retry_at = time.monotonic() + RETRY_AFTER_S


def _is_gone(error: ClientError) -> bool:
    """The metadata does not have the topic or partition: waiting would not bring it back."""
    return isinstance(error, Rejected) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
