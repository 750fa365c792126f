"""What a broker's answer to Produce means for each batch, and the request that was answered. Sent by the fronts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.core.metadata import Topic
from tidelog.client.core.pending import Acknowledged, Batch
from tidelog.client.errors import ProducerFenced, Rejected, code_of
from tidelog.model.errors import RETRIABLE, ErrorCode
from tidelog.model.ids import NO_OFFSET, ZERO_UUID, Offset, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

# The last version that names topics; from the next on it is their ids (KIP-516).
LAST_VERSION_WITH_NAMES: Final = 12
# The last version before partitions join a transaction by being written to (KIP-890).
LAST_VERSION_BEFORE_IMPLICIT_ADD: Final = 11

# The broker does not have what should be before the batch: it is not written.
OUT_OF_SEQUENCE: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The same bytes may be accepted later, maybe by another broker."""

    error: Rejected


@dataclass(frozen=True, slots=True)
class OutOfSequence:
    """Not written, because what comes before is not there."""

    error: Rejected


@dataclass(frozen=True, slots=True)
class TooLarge:
    """Not written; in two parts it may be."""

    error: Rejected


@dataclass(frozen=True, slots=True)
class Refused:
    """Not written, and it never will be."""

    error: Rejected | ProducerFenced


Outcome = Acknowledged | TryAgain | OutOfSequence | TooLarge | Refused


def produce_request(
    batches: Iterable[Batch],
    topics: Mapping[TopicName, Topic],
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One request for batches of one leader."""
    by_topic: defaultdict[TopicName, list[PartitionProduceData]] = defaultdict(list)
    for batch in batches:
        by_topic[batch.partition.topic].append(PartitionProduceData(batch.partition.partition, batch.encoded))
    data = [TopicProduceData(name, topics[name].id, partitions) for name, partitions in by_topic.items()]
    return ProduceRequest(transactional_id, acks, timeout_ms, data)


def newest_version(topics: Iterable[Topic], transactional: bool, implicit_add: bool) -> int | None:
    """Topics without an id, from an old broker, cannot be asked for by id; older transactions not by newer versions."""
    if transactional and not implicit_add:
        return LAST_VERSION_BEFORE_IMPLICIT_ADD
    return LAST_VERSION_WITH_NAMES if any(topic.id == ZERO_UUID for topic in topics) else None


def outcomes(answer: ProduceResponse, names: Mapping[TopicId, TopicName]) -> dict[TopicPartition, Outcome]:
    """What became of each batch."""
    found: dict[TopicPartition, Outcome] = {}
    for topic in answer.responses:
        name = TopicName(topic.name) or names.get(topic.topic_id, TopicName(""))
        for partition in topic.partition_responses:
            place = TopicPartition(name, PartitionIndex(partition.index))
            code = code_of(partition.error_code)
            if code is ErrorCode.NONE:
                found[place] = Acknowledged(Offset(partition.base_offset), partition.log_append_time_ms)
                continue
            message = partition.error_message
            if partition.record_errors:
                message = "; ".join(error.batch_index_error_message or "" for error in partition.record_errors)
            found[place] = _failure(code, message, partition.log_append_time_ms)
    return found


def _failure(code: ErrorCode, message: str | None, log_append_time_ms: int) -> Outcome:
    error = Rejected(code, message)
    if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        # It was there already from an earlier try, at an offset that the broker does not remember.
        return Acknowledged(NO_OFFSET, log_append_time_ms)
    if code in OUT_OF_SEQUENCE:
        return OutOfSequence(error)
    if code is ErrorCode.MESSAGE_TOO_LARGE:
        return TooLarge(error)
    if code in FENCED:
        return Refused(ProducerFenced(message or "Another producer with the same transactional id has begun."))
    return TryAgain(error) if code in RETRIABLE else Refused(error)
