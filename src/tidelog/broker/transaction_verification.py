"""Before the first batch of a transaction is written to a partition, its coordinator is asked (KIP-890).

The produce and the offset commit handler hand over requests of transactional producers that begin something; they get
them back when the coordinator has answered. For clients of the first protocol it is asked whether they added the
partition, for those of the second it adds it. What it said stands in the partition's verifications, where staging the
batch finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transaction_peers import TransactionPeers
from tidelog.log.verifications import Verification
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_NODE, NodeId, ProducerEpoch, ProducerId, TopicPartition
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import LedPartitions
from tidelog.transactions.partitions import add_partitions, verify_partitions
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION, Producer
from tidelog.wire.batch import HEADER_BYTES, TRANSACTIONAL_FLAG, BatchHeader, read_header
from tidelog.wire.messages.produce import ProduceRequest

FIRST_PRODUCE_VERSION_WITH_TOPIC_IDS: Final = 13
# From these versions of Produce on clients know TRANSACTION_ABORTABLE, and leave adding partitions to the broker.
FIRST_PRODUCE_VERSION_WITH_ABORTABLE: Final = 11
FIRST_PRODUCE_VERSION_THAT_ADDS: Final = 12

# What the coordinator's errors are called in answers to produce requests: those of its own are not expected there, and
# all that can be tried again is called by one name that every client retries without losing its sequence.
PRODUCE_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_ENOUGH_REPLICAS,
}

Errors = dict[TopicPartition, ErrorCode]


class TransactionVerification:
    def __init__(
        self,
        coordinator: TransactionCoordinator,
        partitions: LedPartitions,
        now_ms: Callable[[], int],
        *,
        verifies_first_protocol: bool,
        node_id: NodeId = NO_NODE,
        elsewhere: TransactionPeers | None = None,
    ) -> None:
        self._node_id = node_id
        self._elsewhere = elsewhere
        self._coordinator = coordinator
        self._partitions = partitions
        self._now_ms = now_ms
        self._verifies_first_protocol = verifies_first_protocol

    def hold(self, request: ProduceRequest, version: int, resume: Callable[[ProduceRequest], None]) -> bool:
        """Whether a request begins a transaction somewhere. Then `resume` gets a copy of it when that is settled."""
        adds = version >= FIRST_PRODUCE_VERSION_THAT_ADDS
        beginning: dict[TopicPartition, tuple[PartitionLeader, BatchHeader, Verification]] = {}
        for leader, records in self._batches(request, version):
            header = read_header(records)
            if header.attributes & TRANSACTIONAL_FLAG and not leader.log.producers.has_open_transaction(
                ProducerId(header.producer_id), header.producer_epoch
            ):
                verification = leader.log.producers.verifications.begin(
                    ProducerId(header.producer_id),
                    header.producer_epoch,
                    header.base_sequence,
                    starts_at_zero=adds,
                    now_ms=self._now_ms(),
                )
                beginning[leader.log.partition] = (leader, header, verification)
        if not beginning:
            return False
        _, first, _ = next(iter(beginning.values()))
        producer = Producer(ProducerId(first.producer_id), ProducerEpoch(first.producer_epoch))
        transactional_id = request.transactional_id or ""
        is_settled = False
        copy: ProduceRequest | None = None

        def settled(errors: Errors) -> None:
            nonlocal is_settled
            is_settled = True
            for partition, (leader, header, verification) in beginning.items():
                same = (header.producer_id, header.producer_epoch) == producer
                code = errors[partition] if same else ErrorCode.INVALID_PRODUCER_ID_MAPPING
                if code is not ErrorCode.NONE:
                    code = PRODUCE_ERRORS.get(code, code)
                    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_PRODUCE_VERSION_WITH_ABORTABLE:
                        code = ErrorCode.INVALID_TXN_STATE
                leader.log.producers.verifications.agreed(producer.id, verification, code)
            if copy is not None:
                resume(copy)

        self.settle(transactional_id, producer, frozenset(beginning), settled, adds=adds)
        if not is_settled:
            # What waits for the end of the turn must be copied, and so must all that the producer has sent behind it:
            # where nobody else has to hold the coordinator's record, it is written now, which is cheaper.
            self._coordinator.write_now(transactional_id)
        if is_settled:
            return False
        copy = _copied(request)
        return True

    def begins_at_once(
        self, version: int, transactional_id: str, leader: PartitionLeader, producer_id: int, epoch: int
    ) -> bool:
        """Whether a transaction may begin in a partition, as far as the coordinator can be asked without waiting.

        Of the second protocol only: there the first batch has sequence 0, so that none can be overtaken. What is not
        to be answered now is asked for once more by `hold`, which does no harm.
        """
        host = self._coordinator.led_host(transactional_id)
        if version < FIRST_PRODUCE_VERSION_THAT_ADDS or host is None:
            return False
        producer = Producer(ProducerId(producer_id), ProducerEpoch(epoch))
        return host.begin_at_once(transactional_id, producer, leader.log.partition, self._now_ms())

    def settle(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        answer: Callable[[Errors], None],
        *,
        adds: bool,
    ) -> None:
        """Ask the coordinator to add partitions to a transaction, or whether they are in it."""
        if not adds and not self._verifies_first_protocol:
            answer(dict.fromkeys(partitions, ErrorCode.NONE))
            return

        coordinator = self._coordinator.node_of(transactional_id)
        if self._elsewhere is not None and coordinator is not None and coordinator != self._node_id:
            self._elsewhere.add_partitions(
                coordinator, transactional_id, producer, partitions, answer, verify_only=not adds
            )
            return

        def added(outcome: ProtocolError | None) -> None:
            answer(dict.fromkeys(partitions, ErrorCode.NONE if outcome is None else outcome.code))

        def verified(outcome: Errors | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                outcome = dict.fromkeys(partitions, outcome.code)
            answer(outcome)

        if adds:
            self._coordinator.submit(
                transactional_id,
                lambda shard, _, now_ms: add_partitions(
                    shard, transactional_id, producer, partitions, EPOCH_BUMPING_VERSION, now_ms
                ),
                added,
            )
        else:
            self._coordinator.submit(
                transactional_id,
                lambda shard, _, now_ms: verify_partitions(shard, transactional_id, producer, partitions),
                verified,
            )

    def _batches(self, request: ProduceRequest, version: int) -> list[tuple[PartitionLeader, memoryview]]:
        """The batches for partitions led here that have a header at all; the handler itself refuses the others."""
        by_id = version >= FIRST_PRODUCE_VERSION_WITH_TOPIC_IDS
        found = []
        for topic in request.topic_data:
            led = self._partitions.by_id.get(topic.topic_id) if by_id else self._partitions.by_name.get(topic.name)
            for partition in topic.partition_data:
                leader = None if led is None else led.get(partition.index)
                records = partition.records
                if leader is not None and records is not None and len(records) >= HEADER_BYTES:
                    found.append((leader, records))
        return found


def _copied(request: ProduceRequest) -> ProduceRequest:
    """The request with memory of its own: what it was read into belongs to the turn."""
    topics = []
    for topic in request.topic_data:
        partitions = [
            type(partition)(
                partition.index, None if partition.records is None else memoryview(bytearray(partition.records))
            )
            for partition in topic.partition_data
        ]
        topics.append(type(topic)(topic.name, topic.topic_id, partitions))
    return ProduceRequest(request.transactional_id, request.acks, request.timeout_ms, topics)
