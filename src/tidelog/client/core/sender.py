"""What a producer puts on the wire and what the answers mean: Produce requests, sequences, which failures to retry.

`client/producer.py` sends and receives; the choice of retry, failure or success is made here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.core.accumulator import Batch
from tidelog.client.core.metadata import Topic
from tidelog.client.errors import Rejected, code_of
from tidelog.model.errors import RETRIABLE, ErrorCode
from tidelog.model.ids import (
    NO_OFFSET,
    NO_PRODUCER,
    ZERO_UUID,
    Offset,
    PartitionIndex,
    ProducerEpoch,
    ProducerId,
    TopicId,
    TopicName,
    TopicPartition,
)
from tidelog.wire.batch import NO_SEQUENCE, SEQUENCE_MASK
from tidelog.wire.compression import Compression
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.wire.records import NO_PRODUCER_EPOCH, build_batch

# The last version that names topics; from the next on it is their ids (KIP-516).
LAST_VERSION_WITH_NAMES: Final = 12


@dataclass(frozen=True, slots=True)
class Written:
    """A batch is in the log. Offset -1: it was there already from an earlier try, at an offset that was not told."""

    base_offset: Offset
    log_append_time_ms: int


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The same bytes may be accepted later, maybe by another broker."""

    error: Rejected


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The batch will never be accepted."""

    error: Rejected


Outcome = Written | TryAgain | GiveUp


class Sequences:
    """The identity of an idempotent producer: an id from a broker, and a count of records for each partition."""

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER
        self.producer_epoch = NO_PRODUCER_EPOCH
        self._next: dict[TopicPartition, int] = {}

    @property
    def known(self) -> bool:
        return self.producer_id != NO_PRODUCER

    def begin(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
        """Start counting under a new identity."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._next.clear()

    def end(self) -> None:
        """A batch was given up: nobody knows which sequence its partition expects, so a new identity is needed."""
        self.producer_id, self.producer_epoch = NO_PRODUCER, NO_PRODUCER_EPOCH

    def take(self, partition: TopicPartition, records: int) -> int:
        """The first sequence of the partition's next records."""
        first = self._next.get(partition, 0)
        self._next[partition] = (first + records) & SEQUENCE_MASK
        return first


def encode(batch: Batch, compression: Compression, sequences: Sequences | None) -> None:
    """Make the bytes of a batch, once: a retry has to be the same."""
    if batch.encoded is not None:
        return
    first = NO_SEQUENCE if sequences is None else sequences.take(batch.partition, len(batch.records))
    batch.encoded = build_batch(
        batch.records,
        compression=compression,
        producer_id=NO_PRODUCER if sequences is None else sequences.producer_id,
        producer_epoch=NO_PRODUCER_EPOCH if sequences is None else sequences.producer_epoch,
        base_sequence=first,
    )


def produce_request(
    batches: Iterable[Batch], topics: Mapping[TopicName, Topic], acks: int, timeout_ms: int
) -> ProduceRequest:
    """One request for batches of one leader."""
    by_topic: defaultdict[TopicName, list[PartitionProduceData]] = defaultdict(list)
    for batch in batches:
        by_topic[batch.partition.topic].append(PartitionProduceData(batch.partition.partition, batch.encoded))
    data = [TopicProduceData(name, topics[name].id, partitions) for name, partitions in by_topic.items()]
    return ProduceRequest(None, acks, timeout_ms, data)


def newest_version(topics: Iterable[Topic]) -> int | None:
    """Topics without an id, from an old broker, cannot be asked for by id."""
    return LAST_VERSION_WITH_NAMES if any(topic.id == ZERO_UUID for topic in topics) else None


def outcomes(answer: ProduceResponse, names: Mapping[TopicId, TopicName]) -> dict[TopicPartition, Outcome]:
    """What became of each batch."""
    found: dict[TopicPartition, Outcome] = {}
    for topic in answer.responses:
        name = TopicName(topic.name) or names.get(topic.topic_id, TopicName(""))
        for partition in topic.partition_responses:
            code = code_of(partition.error_code)
            message = partition.error_message
            if partition.record_errors:
                message = "; ".join(error.batch_index_error_message or "" for error in partition.record_errors)
            outcome: Outcome
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                base = Offset(partition.base_offset) if code == ErrorCode.NONE else NO_OFFSET
                outcome = Written(base, partition.log_append_time_ms)
            elif code in RETRIABLE:
                outcome = TryAgain(Rejected(code, message))
            else:
                outcome = GiveUp(Rejected(code, message))
            found[TopicPartition(name, PartitionIndex(partition.index))] = outcome
    return found
