"""The rows of the API table that concern transactions; `apis.py` adds them to its own."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.dispatch import Served, serve
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.broker.handlers.add_offsets_to_txn import AddOffsetsToTxnHandler
from tidelog.broker.handlers.add_partitions_to_txn import AddPartitionsToTxnHandler
from tidelog.broker.handlers.describe_producers import DescribeProducersHandler
from tidelog.broker.handlers.describe_transactions import DescribeTransactionsHandler
from tidelog.broker.handlers.end_txn import EndTxnHandler
from tidelog.broker.handlers.init_producer_id import InitProducerIdHandler
from tidelog.broker.handlers.list_transactions import ListTransactionsHandler
from tidelog.broker.handlers.txn_offset_commit import TxnOffsetCommitHandler
from tidelog.broker.handlers.write_txn_markers import WriteTxnMarkersHandler
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transaction_markers import LocalMarkers
from tidelog.broker.transaction_verification import TransactionVerification
from tidelog.metadata.image import ClusterImage
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tidelog.wire.messages.describe_producers import DescribeProducersRequest
from tidelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from tidelog.wire.messages.end_txn import EndTxnRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.list_transactions import ListTransactionsRequest
from tidelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tidelog.wire.messages.write_txn_markers import WriteTxnMarkersRequest


def transaction_apis(
    transactions: TransactionCoordinator,
    verification: TransactionVerification,
    markers: LocalMarkers,
    producer_ids: ProducerIds,
    groups: GroupCoordinator,
    partitions: LedPartitions,
    image: Callable[[], ClusterImage],
    now_ms: Callable[[], int],
) -> list[Served]:
    return [
        serve(InitProducerIdRequest, InitProducerIdHandler(producer_ids, transactions)),
        serve(AddPartitionsToTxnRequest, AddPartitionsToTxnHandler(transactions, image)),
        serve(AddOffsetsToTxnRequest, AddOffsetsToTxnHandler(transactions, groups)),
        serve(EndTxnRequest, EndTxnHandler(transactions)),
        serve(WriteTxnMarkersRequest, WriteTxnMarkersHandler(markers)),
        serve(TxnOffsetCommitRequest, TxnOffsetCommitHandler(groups, partitions, verification, now_ms)),
        serve(DescribeProducersRequest, DescribeProducersHandler(partitions)),
        serve(DescribeTransactionsRequest, DescribeTransactionsHandler(transactions)),
        serve(ListTransactionsRequest, ListTransactionsHandler(transactions, now_ms)),
    ]
