"""Markers that end transactions: written to partitions that this broker leads, delivered to all of a transaction.

`LocalMarkers` serves the WriteTxnMarkers handler and this broker's own coordinator alike; `MarkerSender` keeps one
transaction's markers going until every partition has its own. What an error means is decided in
`transactions/delivery.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidelog.broker.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from tidelog.broker.logs import log
from tidelog.broker.timers import Timer, Timers
from tidelog.broker.transaction_peers import TransactionPeers
from tidelog.groups.records import EndTransaction
from tidelog.metadata.image import ClusterImage
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId, TopicPartition
from tidelog.replica.partitions import LedPartitions
from tidelog.transactions.calls import Ending
from tidelog.transactions.delivery import Delivery
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION, Producer
from tidelog.wire import control

PartitionErrors = dict[TopicPartition, ErrorCode]


class Marker(NamedTuple):
    """The end of one transaction, as it is written to each of its partitions."""

    producer: Producer
    committed: bool
    coordinator_epoch: int
    version: int

    @classmethod
    def of(cls, ending: Ending) -> Marker:
        return cls(ending.producer, ending.committed, ending.coordinator_epoch, ending.version)


class LocalMarkers:
    """Writes markers to partitions led here; each is done when it is replicated."""

    def __init__(self, partitions: LedPartitions, groups: GroupCoordinator, now_ms: Callable[[], int]) -> None:
        self._partitions = partitions
        self._groups = groups
        self._now_ms = now_ms

    def write(
        self, marker: Marker, partitions: Iterable[TopicPartition], answer: Callable[[PartitionErrors], None]
    ) -> None:
        """Write the marker to each partition; `answer` gets an error code for each when all are done."""
        written = _Written(partitions, answer)
        for partition in tuple(written.waiting):
            try:
                self._write_one(marker, partition, written)
            except ProtocolError as error:
                written.done(partition, error.code)

    def _write_one(self, marker: Marker, partition: TopicPartition, written: _Written) -> None:
        producer = marker.producer
        leader = self._partitions.named(*partition)
        leader.log.producers.check_marker(
            producer.id,
            producer.epoch,
            marker.coordinator_epoch,
            is_newer=marker.version >= EPOCH_BUMPING_VERSION,
        )
        if partition.topic == OFFSETS_TOPIC:
            # The group coordinator writes it itself: the offsets count when its machine has seen the marker.
            end = EndTransaction(*producer, marker.coordinator_epoch, marker.committed)
            self._groups.end_transaction(partition.partition, end, lambda outcome: written.answered(partition, outcome))
            return
        batch = control.build_end_transaction(
            control.EndTransaction(marker.committed, marker.coordinator_epoch), *producer, self._now_ms()
        )
        leader.stage_own(batch, _Waiter(partition, written))


class _Written:
    """The partitions of one marker, and what became of each."""

    def __init__(self, partitions: Iterable[TopicPartition], answer: Callable[[PartitionErrors], None]) -> None:
        # In order, so that a simulation is the same each time.
        self.waiting = dict.fromkeys(partitions)
        self._errors: PartitionErrors = {}
        self._answer = answer

    def answered(self, partition: TopicPartition, outcome: ProtocolError | None) -> None:
        self.done(partition, ErrorCode.NONE if outcome is None else outcome.code)

    def done(self, partition: TopicPartition, error: ErrorCode) -> None:
        self.waiting.pop(partition, None)
        self._errors[partition] = error
        if not self.waiting:
            self._answer(self._errors)


class _Waiter:
    """Told by the partition's leader when the marker is replicated."""

    __slots__ = ("_partition", "_written")

    def __init__(self, partition: TopicPartition, written: _Written) -> None:
        self._partition = partition
        self._written = written

    def replicated(self) -> None:
        self._written.done(self._partition, ErrorCode.NONE)

    def failed(self) -> None:
        self._written.done(self._partition, ErrorCode.KAFKA_STORAGE_ERROR)


class MarkerSender:
    """The markers of one transaction, sent to the leaders of its partitions until all have them."""

    def __init__(
        self,
        ending: Ending,
        node_id: NodeId,
        image: Callable[[], ClusterImage],
        local: LocalMarkers,
        timers: Timers,
        done: Callable[[Delivery], None],
        elsewhere: TransactionPeers | None = None,
    ) -> None:
        self._elsewhere = elsewhere
        # Brokers that have not answered yet.
        self._asked = 0
        self._delivery = Delivery(ending)
        self._node_id = node_id
        self._image = image
        self._local = local
        self._timers = timers
        self._done = done
        self._timer: Timer | None = None
        self._cancelled = False

    def send(self) -> None:
        """Send to each partition that misses its marker."""
        self._timer = None
        image = self._image()
        by_leader: dict[NodeId, list[TopicPartition]] = {}
        for partition in sorted(self._delivery.missing):
            found = image.partition(*partition)
            if found is None:
                self._delivery.deleted(partition)
            elif found.has_leader:
                by_leader.setdefault(found.leader, []).append(partition)
        marker = Marker.of(self._delivery.ending)
        # One more than there are brokers, so that the last answer comes after all were asked.
        self._asked = len(by_leader) + 1
        for leader, partitions in by_leader.items():
            if leader == self._node_id:
                self._local.write(marker, partitions, self._answered)
            elif self._elsewhere is not None:
                self._elsewhere.write_markers(leader, marker, partitions, self._answered)
            else:
                self._answered({})
        self._answered({})

    def send_later(self) -> None:
        """Send when some time has passed: the log may be in the middle of a write that failed."""
        self._timer = self._timers.call_later(self._delivery.next_retry_ms() / 1000, self.send)

    def cancel(self) -> None:
        """The coordinator does not lead any more: whoever does now sends them."""
        self._cancelled = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _answered(self, errors: PartitionErrors) -> None:
        if self._cancelled:
            return
        delivery = self._delivery
        delivery.answered(errors)
        self._asked -= 1
        if self._asked:
            return
        if delivery.is_done:
            self._done(delivery)
        elif delivery.fenced:
            log.warning("a newer coordinator ends this transaction", transactional_id=delivery.ending.transactional_id)
        else:
            self.send_later()
