"""The table of APIs that this broker serves, each with its handler. ApiVersions advertises this table and nothing
else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidelog.broker.auto_creation import AutoCreation
from tidelog.broker.dispatch import Dispatch, Repeats, Served, serve
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.broker.handlers.api_versions import ApiVersionsHandler
from tidelog.broker.handlers.consumer_group_describe import ConsumerGroupDescribeHandler
from tidelog.broker.handlers.delete_groups import DeleteGroupsHandler
from tidelog.broker.handlers.delete_records import DeleteRecordsHandler
from tidelog.broker.handlers.describe_client_quotas import DescribeClientQuotasHandler
from tidelog.broker.handlers.describe_cluster import DescribeClusterHandler
from tidelog.broker.handlers.describe_configs import DescribeConfigsHandler
from tidelog.broker.handlers.describe_groups import DescribeGroupsHandler
from tidelog.broker.handlers.describe_log_dirs import DescribeLogDirsHandler
from tidelog.broker.handlers.describe_topic_partitions import DescribeTopicPartitionsHandler
from tidelog.broker.handlers.describe_user_scram_credentials import DescribeUserScramCredentialsHandler
from tidelog.broker.handlers.fetch import FetchHandler
from tidelog.broker.handlers.find_coordinator import FindCoordinatorHandler
from tidelog.broker.handlers.group_commands import GROUP_COMMANDS, GroupCommandHandler, HeartbeatHandler
from tidelog.broker.handlers.list_config_resources import ListConfigResourcesHandler
from tidelog.broker.handlers.list_groups import ListGroupsHandler
from tidelog.broker.handlers.list_offsets import ListOffsetsHandler
from tidelog.broker.handlers.list_partition_reassignments import ListPartitionReassignmentsHandler
from tidelog.broker.handlers.metadata import MetadataHandler
from tidelog.broker.handlers.offset_fetch import OffsetFetchHandler
from tidelog.broker.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from tidelog.broker.handlers.produce import ProduceHandler
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.repeated_commits import RepeatedCommits
from tidelog.broker.repeated_produce import RepeatedProduce
from tidelog.broker.settings import LiveSettings
from tidelog.broker.topic_creation import TopicCreation
from tidelog.broker.transaction_apis import transaction_apis
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transaction_markers import LocalMarkers
from tidelog.broker.transaction_peers import TransactionPeers
from tidelog.broker.transaction_verification import TransactionVerification
from tidelog.broker.turn import Turn
from tidelog.controller.features import ADVERTISED
from tidelog.log.directories import LogDirectories
from tidelog.metadata.image import ClusterImage
from tidelog.model.broker_settings import BrokerConfig
from tidelog.model.ids import NodeId
from tidelog.replica.partitions import LedPartitions
from tidelog.replica.selector import RACK_AWARE, RackAwareSelector
from tidelog.replica.throttle import Throttle
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.delete_records import DeleteRecordsRequest
from tidelog.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tidelog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.messages.list_offsets import ListOffsetsRequest
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.messages.offset_commit import OffsetCommitRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest
from tidelog.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.schema import Request


@dataclass(frozen=True, slots=True)
class Parts:
    """What handlers are built from."""

    config: BrokerConfig
    settings: LiveSettings
    cluster_id: str
    node_id: NodeId
    image: Callable[[], ClusterImage]
    controller_id: Callable[[], NodeId]
    broker_epoch: Callable[[], int]
    kraft_version: Callable[[], int]
    # What only the controller can do: done here when this node is the controller, passed on when it is not.
    forwarded: Sequence[Served]
    topics: TopicCreation
    partitions: LedPartitions
    groups: GroupCoordinator
    producer_ids: ProducerIds
    transactions: TransactionCoordinator
    markers: LocalMarkers
    transaction_peers: TransactionPeers
    replication_throttle: Throttle
    directories: LogDirectories
    sessions: FetchSessions
    turn: Turn
    loop: asyncio.AbstractEventLoop
    now_ms: Callable[[], int]


def build_dispatch(parts: Parts) -> Dispatch:
    """The dispatcher with every handler. ApiVersions is the one that needs to know the finished table."""
    dispatch: Dispatch
    verification = _verification(parts)
    frame_bytes_max = parts.config.socket_request_max_bytes
    repeats: dict[type[Request], Repeats] = {
        ProduceRequest: RepeatedProduce(parts.partitions, parts.turn, verification, frame_bytes_max),
        OffsetCommitRequest: RepeatedCommits(parts.groups),
    }
    api_versions = ApiVersionsHandler(lambda: dispatch.api_versions, ADVERTISED, parts.image, parts.kraft_version)
    served = [serve(ApiVersionsRequest, api_versions), *_handlers(parts, verification)]
    dispatch = Dispatch(served, parts.turn.write_now, repeats)
    return dispatch


def _verification(parts: Parts) -> TransactionVerification:
    return TransactionVerification(
        parts.transactions,
        parts.partitions,
        parts.now_ms,
        verifies_first_protocol=parts.config.transaction_partition_verification_enable,
        node_id=parts.node_id,
        elsewhere=parts.transaction_peers,
    )


def _handlers(parts: Parts, verification: TransactionVerification) -> list[Served]:
    config, image, partitions = parts.config, parts.image, parts.partitions
    auto_creation = AutoCreation(parts.topics)
    return [
        *parts.forwarded,
        serve(
            ProduceRequest,
            ProduceHandler(partitions, parts.turn, parts.loop, parts.now_ms, verification),
            # librdkafka takes gzip and snappy for unsupported unless version 0 is in the range, though it never sends
            # it.
            advertised="0-13",
        ),
        serve(
            FetchRequest, FetchHandler(partitions, parts.sessions, parts.loop, config.fetch_max_bytes, _selector(parts))
        ),
        serve(ListOffsetsRequest, ListOffsetsHandler(partitions)),
        serve(
            MetadataRequest,
            MetadataHandler(
                parts.node_id,
                image,
                parts.cluster_id,
                parts.controller_id,
                lambda: config.auto_create_topics_enable,
                auto_creation,
            ),
        ),
        serve(
            DescribeTopicPartitionsRequest,
            DescribeTopicPartitionsHandler(image, config.max_request_partition_size_limit),
        ),
        serve(ListPartitionReassignmentsRequest, ListPartitionReassignmentsHandler(image)),
        serve(DescribeConfigsRequest, DescribeConfigsHandler(image, parts.settings, parts.node_id)),
        serve(ListConfigResourcesRequest, ListConfigResourcesHandler(image)),
        serve(DescribeClientQuotasRequest, DescribeClientQuotasHandler(image)),
        serve(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsHandler()),
        serve(DescribeClusterRequest, DescribeClusterHandler(image, parts.cluster_id, parts.controller_id)),
        serve(DeleteRecordsRequest, DeleteRecordsHandler(partitions, parts.loop)),
        serve(DescribeLogDirsRequest, DescribeLogDirsHandler(parts.directories)),
        serve(FindCoordinatorRequest, FindCoordinatorHandler(image, parts.groups, parts.transactions)),
        serve(OffsetForLeaderEpochRequest, OffsetForLeaderEpochHandler(partitions)),
        serve(OffsetFetchRequest, OffsetFetchHandler(parts.groups)),
        serve(ListGroupsRequest, ListGroupsHandler(parts.groups)),
        serve(DescribeGroupsRequest, DescribeGroupsHandler(parts.groups)),
        serve(ConsumerGroupDescribeRequest, ConsumerGroupDescribeHandler(parts.groups)),
        serve(DeleteGroupsRequest, DeleteGroupsHandler(parts.groups)),
        *transaction_apis(
            parts.transactions,
            verification,
            parts.markers,
            parts.producer_ids,
            parts.groups,
            partitions,
            image,
            parts.now_ms,
        ),
        *(
            serve(request, GroupCommandHandler(parts.groups, command))
            for request, command in GROUP_COMMANDS.items()
            if request is not HeartbeatRequest
        ),
        serve(HeartbeatRequest, HeartbeatHandler(parts.groups)),
    ]


def _selector(parts: Parts) -> RackAwareSelector | None:
    """`replica.selector.class`: None sends every consumer to the leader."""
    wanted = parts.config.replica_selector_class
    if wanted is None or wanted.rpartition(".")[2] != RACK_AWARE:
        return None

    def rack_of(node: NodeId) -> str | None:
        broker = parts.image().brokers.get(node)
        return broker.rack if broker is not None and not broker.fenced else None

    return RackAwareSelector(parts.node_id, rack_of)
