"""A whole broker, but for its sockets, in a simulated world: real handlers, coordinators, leaders and logs.

Its disk is simulated, its loop and its clock are the world's. A crash throws the objects away; what the disk kept is
opened again by the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol
from uuid import UUID

from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.broker.handlers.add_offsets_to_txn import AddOffsetsToTxnHandler
from tidelog.broker.handlers.add_partitions_to_txn import AddPartitionsToTxnHandler
from tidelog.broker.handlers.end_txn import EndTxnHandler
from tidelog.broker.handlers.fetch import FetchHandler
from tidelog.broker.handlers.init_producer_id import InitProducerIdHandler
from tidelog.broker.handlers.offset_fetch import OffsetFetchHandler
from tidelog.broker.handlers.produce import ProduceHandler
from tidelog.broker.handlers.txn_offset_commit import TxnOffsetCommitHandler
from tidelog.broker.partition_logs import log_config
from tidelog.broker.repeated_produce import KnownForm, RepeatedProduce
from tidelog.broker.transaction_coordinator import TransactionCoordinator, transaction_settings
from tidelog.broker.transaction_markers import LocalMarkers
from tidelog.broker.transaction_verification import TransactionVerification
from tidelog.broker.turn import Turn
from tidelog.env.simulated_files import SimulatedCrash, SimulatedFiles
from tidelog.log.errors import LogFlushFailed, LogWriteFailed
from tidelog.log.open_files import OpenFiles
from tidelog.log.partition import PartitionLog
from tidelog.log.recovery import create_log, open_log
from tidelog.metadata.delta import difference
from tidelog.metadata.image import EMPTY, ClusterImage, PartitionRegistration, TopicImage
from tidelog.model.broker_settings import BrokerConfig
from tidelog.model.ids import (
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionIndex,
    ProducerId,
    TopicId,
    TopicName,
    TopicPartition,
)
from tidelog.model.topic_settings import TopicConfig, topic_defaults
from tidelog.replica.disk import Replica
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.batch import read_header
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tidelog.wire.messages.end_txn import EndTxnRequest
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tidelog.wire.produce_run import ProducePart

NODE = NodeId(1)
DATA_TOPIC = "data"
DATA_PARTITIONS = 2
CONFIG = BrokerConfig.from_properties(
    {"log.dirs": "/data", "transaction.max.timeout.ms": "10000", "transaction.two.phase.commit.enable": "true"}
)
LOOSE = topic_defaults({})
# Everything is on the disk before it is acknowledged: then even a loss of power loses nothing.
STRICT = topic_defaults({"log.flush.interval.messages": 1})
GARBAGE = b"\xee"


def _image() -> ClusterImage:
    partition = PartitionRegistration((NODE,), (NODE,), NODE, LeaderEpoch(0), 0)
    counts = {DATA_TOPIC: DATA_PARTITIONS, "__transaction_state": 1, "__consumer_offsets": 1}
    topics = [
        TopicImage(TopicName(name), UUID(int=number), {PartitionIndex(index): partition for index in range(count)})
        for number, (name, count) in enumerate(counts.items(), 1)
    ]
    return ClusterImage(
        topics_by_name={topic.name: topic for topic in topics}, topics_by_id={topic.topic_id: topic for topic in topics}
    )


IMAGE = _image()
APPEARED = difference(EMPTY, IMAGE)


class Loop(Protocol):
    """The part of the world that a broker sees. What it asks for dies with it."""

    def now_ms(self) -> int: ...
    def monotonic(self) -> float: ...
    def call_soon(self, callback: Callable[[], None]) -> object: ...
    def call_later(self, delay: float, callback: Callable[[], object]) -> Any: ...
    def sync_later(self, callback: Callable[[], None]) -> None: ...
    def next_producer_id(self) -> int: ...
    def uuid(self) -> UUID: ...


class _Logs:
    """Logs on the simulated disk, opened as after a crash."""

    def __init__(self, files: SimulatedFiles, loop: Loop) -> None:
        self._open_files = OpenFiles(files)
        self._loop = loop

    def get_or_create(self, partition: TopicPartition, topic_id: TopicId, config: TopicConfig) -> PartitionLog:
        folder = f"/data/{partition}"
        settings = log_config(config, CONFIG.producer_id_expiration_ms)
        if self._open_files.files.exists(folder):
            return open_log(partition, folder, self._open_files, self._loop, settings, clean=False)
        return create_log(partition, folder, self._open_files, self._loop, settings)

    def high_watermark(self, partition: TopicPartition) -> Offset:
        return Offset(0)

    def reconfigure(self, partition: TopicPartition, config: TopicConfig) -> None:
        raise AssertionError("no settings change here")

    def delete(self, partition: TopicPartition) -> None:
        raise AssertionError("no topic is deleted here")


class _Disk:
    """Syncs that take a while. A disk that is full is full for a moment only."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._syncing: set[Replica] = set()

    def sync_due(self, leader: Replica) -> None:
        if leader not in self._syncing:
            self._syncing.add(leader)
            self._loop.sync_later(lambda: self._sync(leader))

    def sync_later(self, leader: Replica, delay_ms: int) -> None:
        raise AssertionError("flush.ms is not set here")

    def write_failed(self, leader: Replica, failure: LogWriteFailed) -> None:
        """Written down by the broker's log only."""

    def _sync(self, leader: Replica) -> None:
        self._syncing.discard(leader)
        try:
            leader.log.flush()
        except LogFlushFailed as failure:
            # The folder would be offline until somebody starts the broker again: do so.
            raise SimulatedCrash(str(failure)) from failure
        leader.synced()


class _Arena:
    """The memory of a turn: whoever looks at a request's bytes after it finds garbage."""

    taken_bytes = 0

    def __init__(self) -> None:
        self.used: list[memoryview] = []

    def reset(self) -> None:
        for view in self.used:
            view[:] = GARBAGE * len(view)
        self.used.clear()


class _ProducerIds:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def take(self, answer: Callable[[ProducerId], None]) -> None:
        answer(ProducerId(self._loop.next_producer_id()))


class _ShortAnswer:
    """What `RepeatedCalls` is, for the form of one request."""

    def __init__(self, form: KnownForm, part: ProducePart, answer: Callable[[Any], None]) -> None:
        self._form, self._part, self._answer = form, part, answer

    def after_writes(self) -> None:
        part = self._part
        base_offset = -1 if part.error_code else part.offsets[0]
        self._answer(self._form.response(PartitionProduceResponse(self._form.index, part.error_code, base_offset)))


class SimulatedBroker:
    """One life of a broker, from start to crash."""

    def __init__(self, files: SimulatedFiles, loop: Loop, config: TopicConfig) -> None:
        self._turn = Turn(loop.call_soon, 1 << 20, lambda: 0)
        self._arena = self._turn.arena = _Arena()  # type: ignore[assignment]
        self.partitions = LedPartitions(NODE, _Logs(files, loop), lambda *_: config, self._turn.write, _Disk(loop))
        self.partitions.apply(APPEARED)
        commands: Any = None  # Every topic exists: nobody asks the controller for anything.
        groups = GroupCoordinator(CONFIG, commands, self.partitions, loop, loop.now_ms, loop)
        groups.apply(APPEARED)
        markers = LocalMarkers(self.partitions, groups, loop.now_ms)
        producer_ids: Any = _ProducerIds(loop)
        self.transactions = TransactionCoordinator(
            transaction_settings(CONFIG, 100),
            CONFIG,
            NODE,
            commands,
            self.partitions,
            producer_ids,
            markers,
            loop.now_ms,
            loop,
            self._turn.later,
        )
        self.transactions.apply(APPEARED)
        verification = TransactionVerification(
            self.transactions, self.partitions, loop.now_ms, verifies_first_protocol=True
        )
        self._short_way = RepeatedProduce(self.partitions, self._turn, verification, 1 << 20)
        self._now_ms = loop.now_ms
        self._produce_requests = 0
        sessions = FetchSessions(1, 60.0, loop.monotonic, lambda: 1)
        self._handlers: dict[type, Callable[..., Any]] = {
            ProduceRequest: ProduceHandler(self.partitions, self._turn, loop, loop.now_ms, verification),
            FetchRequest: FetchHandler(self.partitions, sessions, loop, 1 << 30),
            InitProducerIdRequest: InitProducerIdHandler(producer_ids, self.transactions),
            AddPartitionsToTxnRequest: AddPartitionsToTxnHandler(self.transactions, lambda: IMAGE),
            AddOffsetsToTxnRequest: AddOffsetsToTxnHandler(self.transactions, groups),
            EndTxnRequest: EndTxnHandler(self.transactions),
            TxnOffsetCommitRequest: TxnOffsetCommitHandler(groups, self.partitions, verification, loop.now_ms),
            OffsetFetchRequest: OffsetFetchHandler(groups),
        }

    def handle(self, request: Any, version: int, answer: Callable[[Any], None]) -> None:
        """A request has arrived. It is answered at once, later in the turn, or in a later one."""
        self._turn.begin()
        if not isinstance(request, ProduceRequest):
            # As when a client that pipelines must see its own writes.
            self._turn.write_now()
        else:
            for topic in request.topic_data:
                for partition in topic.partition_data:
                    partition.records = memoryview(bytearray(partition.records))  # type: ignore[arg-type]
                    self._arena.used.append(partition.records)
        call = SimpleNamespace(
            header=SimpleNamespace(api_version=version, client_id="simulated"),
            connection=SimpleNamespace(peer_host="simulated"),
            answer=answer,
        )
        if isinstance(request, ProduceRequest) and self._goes_the_short_way(request, version, answer):
            return
        response = self._handlers[type(request)](call, request)
        if response is not None:
            answer(response)

    def _goes_the_short_way(self, request: ProduceRequest, version: int, answer: Callable[[Any], None]) -> bool:
        """Have every other request, as far as it can, go as those do whose form was seen before."""
        self._produce_requests += 1
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        if self._produce_requests % 2 or not data.records:
            return False
        header = read_header(data.records)
        part = ProducePart(memoryview(data.records), header.records_count, header.max_timestamp)
        if header.producer_id >= 0:
            part.producer_id, part.producer_epoch = ProducerId(header.producer_id), header.producer_epoch
            part.base_sequence, part.attributes = header.base_sequence, header.attributes
        asked = TopicProduceData(topic.name, topic.topic_id, [PartitionProduceData(data.index)])
        form = KnownForm(version, ProduceRequest(request.transactional_id, request.acks, 0, [asked]), b"")
        if request.acks == 0 or not self._short_way._stage_part(form, part, self._now_ms()):
            return False
        self._turn.after_writes(_ShortAnswer(form, part, answer))
        return True
