"""A transactional producer that says exactly what a test wants said, in either protocol, over a raw connection."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from harness.raw_client import RawClient, fetch_request
from harness.waiting import wait_until
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ProducerEpoch, ProducerId
from tidelog.wire.batch import iter_headers
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from tidelog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.fetch import FetchResponse, PartitionData
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tidelog.wire.records import Record, build_batch, read_records

READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that a client of one protocol uses."""

    produce: int
    add_partitions: int
    add_offsets: int
    commit_offsets: int
    end: int

    @property
    def adds(self) -> bool:
        """Whether partitions are added by the client."""
        return self.end < 5


FIRST = Versions(produce=11, add_partitions=3, add_offsets=3, commit_offsets=4, end=4)
SECOND = Versions(produce=12, add_partitions=3, add_offsets=4, commit_offsets=5, end=5)


class RawTransactions:
    """One producer. Its fields may be changed to play a zombie or a client that repeats itself."""

    def __init__(self, client: RawClient, transactional_id: str, versions: Versions = SECOND) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.versions = versions
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(
        self, timeout_ms: int = 60_000, version: int = 5, *, two_phase_commit: bool = False, keep: bool = False
    ) -> InitProducerIdResponse:
        """Find the coordinator, which creates its topic, and become the producer with this id."""
        find_coordinator(self.client, self.transactional_id)
        request = InitProducerIdRequest(self.transactional_id, timeout_ms)
        request.enable2_pc, request.keep_prepared_txn = two_phase_commit, keep
        answer = self.client.ask(request, InitProducerIdResponse, version)
        if answer.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer

    def add(self, topic: str, *partitions: int) -> list[ErrorCode]:
        request = AddPartitionsToTxnRequest()
        request.v3_and_below_transactional_id = self.transactional_id
        request.v3_and_below_producer_id = self.producer_id
        request.v3_and_below_producer_epoch = self.epoch
        request.v3_and_below_topics = [AddPartitionsToTxnTopic(topic, list(partitions))]
        answer = self.client.ask(request, AddPartitionsToTxnResponse, self.versions.add_partitions)
        (result,) = answer.results_by_topic_v3_and_below
        return [ErrorCode(each.partition_error_code) for each in result.results_by_partition]

    def verify(self, topic: str, partition: int) -> ErrorCode:
        """What a partition leader asks."""
        transaction = AddPartitionsToTxnTransaction(
            self.transactional_id,
            self.producer_id,
            self.epoch,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(topic, [partition])],
        )
        answer = self.client.ask(AddPartitionsToTxnRequest([transaction]), AddPartitionsToTxnResponse, 4)
        (result,) = answer.results_by_transaction[0].topic_results[0].results_by_partition
        return ErrorCode(result.partition_error_code)

    def batch(self, topic: str, partition: int, values: tuple[bytes, ...], sequence: int | None = None) -> bytes:
        now_ms = int(time.time() * 1000)
        return build_batch(
            [Record(number, now_ms, None, value) for number, value in enumerate(values)],
            producer_id=ProducerId(self.producer_id),
            producer_epoch=ProducerEpoch(self.epoch),
            base_sequence=self.sequences.get((topic, partition), 0) if sequence is None else sequence,
            is_transactional=True,
        )

    def request(self, topic: str, partition: int, *values: bytes, sequence: int | None = None) -> ProduceRequest:
        data = PartitionProduceData(partition, self.batch(topic, partition, values, sequence))
        topics = [TopicProduceData(topic, partition_data=[data])]
        return ProduceRequest(self.transactional_id, -1, 10_000, topics)

    def try_write(
        self, topic: str, partition: int, *values: bytes, sequence: int | None = None
    ) -> PartitionProduceResponse:
        request = self.request(topic, partition, *values, sequence=sequence)
        answer = self.client.ask(request, ProduceResponse, self.versions.produce)
        (written,) = answer.responses[0].partition_responses
        if written.error_code == ErrorCode.NONE and sequence is None:
            self.sequences[topic, partition] = self.sequences.get((topic, partition), 0) + len(values)
        return written

    def write(self, topic: str, partition: int, *values: bytes) -> int:
        """Write within the transaction, as a client of its protocol does; returns the offset."""
        if self.versions.adds:
            assert self.add(topic, partition) == [ErrorCode.NONE]
        written = self.try_write(topic, partition, *values)
        assert written.error_code == ErrorCode.NONE, (ErrorCode(written.error_code), written.error_message)
        return written.base_offset

    def commit_offset(self, group: str, topic: str, partition: int, offset: int) -> ErrorCode:
        find_coordinator(self.client, group, kind=0)
        if self.versions.adds:
            adding = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
            added = self.client.ask(adding, AddOffsetsToTxnResponse, self.versions.add_offsets)
            if added.error_code:
                return ErrorCode(added.error_code)
        request = TxnOffsetCommitRequest(self.transactional_id, group, self.producer_id, self.epoch)
        request.topics = [TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(partition, offset)])]
        answer = self.client.ask(request, TxnOffsetCommitResponse, self.versions.commit_offsets)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def try_end(self, commit: bool) -> EndTxnResponse:
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)
        return self.client.ask(request, EndTxnResponse, self.versions.end)

    def end(self, commit: bool = True) -> None:
        """End the transaction, and take the new epoch if there is one."""
        answer = self.try_end(commit)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        if self.versions.end >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()

    def describe(self) -> TransactionState:
        request = DescribeTransactionsRequest([self.transactional_id])
        (state,) = self.client.ask(request, DescribeTransactionsResponse).transaction_states
        return state


def find_coordinator(client: RawClient, key: str, kind: int = 1) -> None:
    def is_found() -> bool:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        return client.ask(request, FindCoordinatorResponse).coordinators[0].error_code == ErrorCode.NONE

    wait_until(is_found)


def fetched(client: RawClient, topic: str, partition: int = 0, offset: int = 0, *, committed: bool) -> PartitionData:
    request = fetch_request(topic, {partition: offset}, isolation_level=READ_COMMITTED if committed else 0)
    return client.ask(request, FetchResponse, 12).responses[0].partitions[0]


def read_all(client: RawClient, topic: str, partition: int = 0) -> list[bytes]:
    """All values, committed or not."""
    return _values(fetched(client, topic, partition, committed=False), {})


def read_committed(client: RawClient, topic: str, partition: int = 0) -> list[bytes]:
    """The values that a reader of committed records sees: it drops what the answer says is aborted."""
    data = fetched(client, topic, partition, committed=True)
    aborted: dict[int, list[int]] = {}
    for transaction in data.aborted_transactions or ():
        aborted.setdefault(transaction.producer_id, []).append(transaction.first_offset)
    return _values(data, aborted)


def _values(data: PartitionData, aborted_first_offsets: Mapping[int, list[int]]) -> list[bytes]:
    assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code)
    view = memoryview(data.records or b"")
    waiting = {producer_id: sorted(offsets) for producer_id, offsets in aborted_first_offsets.items()}
    dropping: set[int] = set()
    values: list[bytes] = []
    for position, header in iter_headers(view):
        offsets = waiting.get(header.producer_id, [])
        if offsets and offsets[0] <= header.last_offset:
            dropping.add(header.producer_id)
            offsets.pop(0)
        if header.is_control:
            dropping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropping):
            values += [record.value or b"" for record in read_records(view, position)]
    return values


def last_stable_offset(client: RawClient, topic: str, partition: int = 0) -> int:
    """Where ListOffsets says that the log ends for readers of committed records."""
    return _latest(client, topic, partition, READ_COMMITTED)


def high_watermark(client: RawClient, topic: str, partition: int = 0) -> int:
    return _latest(client, topic, partition, 0)


def _latest(client: RawClient, topic: str, partition: int, isolation: int) -> int:
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation)
    request.topics = [ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=-1)])]
    (found,) = client.ask(request, ListOffsetsResponse, 7).topics[0].partitions
    assert found.error_code == ErrorCode.NONE
    return found.offset


def committed_offset(client: RawClient, group: str, topic: str, partition: int, *, stable: bool = False) -> int:
    """What OffsetFetch says; an error is raised as its name."""
    asked = OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])])
    answer = client.ask(OffsetFetchRequest(groups=[asked], require_stable=stable), OffsetFetchResponse, 8)
    (found,) = answer.groups[0].topics[0].partitions
    if found.error_code:
        raise AssertionError(ErrorCode(found.error_code).name)
    return found.committed_offset


def producers_of(client: RawClient, topic: str, partition: int = 0) -> list[ProducerState]:
    request = DescribeProducersRequest([TopicRequest(topic, [partition])])
    (described,) = client.ask(request, DescribeProducersResponse).topics[0].partitions
    assert described.error_code == ErrorCode.NONE
    return described.active_producers
