"""The table of APIs on a controller's listener: the quorum's own, those of brokers and of other controllers, and what
brokers pass on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.broker.call import Call
from tidelog.broker.dispatch import Dispatch, Served, serve
from tidelog.broker.handlers.allocate_producer_ids import AllocateProducerIdsHandler
from tidelog.broker.handlers.alter_client_quotas import AlterClientQuotasHandler
from tidelog.broker.handlers.alter_configs import AlterConfigsHandler
from tidelog.broker.handlers.alter_partition import AlterPartitionHandler
from tidelog.broker.handlers.alter_partition_reassignments import AlterPartitionReassignmentsHandler
from tidelog.broker.handlers.api_versions import ApiVersionsHandler
from tidelog.broker.handlers.broker_heartbeat import BrokerHeartbeatHandler
from tidelog.broker.handlers.broker_registration import BrokerRegistrationHandler
from tidelog.broker.handlers.controller_registration import ControllerRegistrationHandler
from tidelog.broker.handlers.create_partitions import CreatePartitionsHandler
from tidelog.broker.handlers.create_topics import CreateTopicsHandler
from tidelog.broker.handlers.delete_topics import DeleteTopicsHandler
from tidelog.broker.handlers.describe_quorum import DescribeQuorumHandler
from tidelog.broker.handlers.elect_leaders import ElectLeadersHandler
from tidelog.broker.handlers.incremental_alter_configs import IncrementalAlterConfigsHandler
from tidelog.broker.handlers.raft_voters import AddRaftVoterHandler, RemoveRaftVoterHandler
from tidelog.broker.handlers.unregister_broker import UnregisterBrokerHandler
from tidelog.broker.handlers.update_features import UpdateFeaturesHandler
from tidelog.broker.mutation_quotas import MutationQuotas
from tidelog.broker.raft.answering import QuorumDesk
from tidelog.broker.raft.metadata_log import MetadataLog
from tidelog.broker.raft.store import QuorumStore
from tidelog.broker.settings import LiveSettings
from tidelog.controller.features import ADVERTISED
from tidelog.model.ids import NodeId
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tidelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from tidelog.wire.messages.alter_configs import AlterConfigsRequest
from tidelog.wire.messages.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest
from tidelog.wire.messages.controller_registration import ControllerRegistrationRequest
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest
from tidelog.wire.messages.create_topics import CreateTopicsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest
from tidelog.wire.messages.describe_quorum import DescribeQuorumRequest
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest
from tidelog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.wire.messages.update_features import UpdateFeaturesRequest


@dataclass(frozen=True, slots=True)
class ControllerParts:
    """What the controller's handlers are built from."""

    desk: QuorumDesk
    metadata_log: MetadataLog
    store: QuorumStore
    settings: LiveSettings
    cluster_id: str
    now_ms: Callable[[], int]
    heard: Callable[[NodeId, Call], None]
    mutation_quotas: MutationQuotas


def build_controller_dispatch(parts: ControllerParts, *, reachable: bool) -> Dispatch:
    """The dispatcher of a controller; one that is not `reachable` serves its own node only."""
    dispatch: Dispatch
    store = parts.store
    api_versions = ApiVersionsHandler(
        lambda: dispatch.api_versions, ADVERTISED, lambda: store.image, lambda: store.kraft_version
    )
    for_others: list[Served] = []
    if reachable:
        from tidelog.broker.quorum_apis import quorum_apis

        for_others = quorum_apis(
            parts.desk, parts.metadata_log, parts.store, lambda call, frame: dispatch.handle_inner(call, frame)
        )
    dispatch = Dispatch(
        [
            serve(ApiVersionsRequest, api_versions),
            *for_others,
            *_of_brokers(parts),
            *passed_on(parts.store, parts.settings, parts.desk, parts.mutation_quotas),
        ],
        lambda: None,
        # Nobody produces or commits here.
        repeats={},
    )
    return dispatch


def _of_brokers(parts: ControllerParts) -> list[Served]:
    store = parts.store
    return [
        serve(BrokerRegistrationRequest, BrokerRegistrationHandler(store, parts.cluster_id, parts.now_ms)),
        serve(BrokerHeartbeatRequest, BrokerHeartbeatHandler(store, parts.now_ms, parts.heard)),
        serve(AllocateProducerIdsRequest, AllocateProducerIdsHandler(store)),
        serve(AlterPartitionRequest, AlterPartitionHandler(store)),
        serve(ControllerRegistrationRequest, ControllerRegistrationHandler(store)),
    ]


def passed_on(store: QuorumStore, settings: LiveSettings, desk: QuorumDesk, quotas: MutationQuotas) -> list[Served]:
    """What clients may ask any broker, and only the controller can do."""
    return [
        serve(CreateTopicsRequest, CreateTopicsHandler(store, settings.describe_new_topic, quotas)),
        serve(DeleteTopicsRequest, DeleteTopicsHandler(store, quotas)),
        serve(CreatePartitionsRequest, CreatePartitionsHandler(store, quotas)),
        serve(ElectLeadersRequest, ElectLeadersHandler(store)),
        serve(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsHandler(store)),
        serve(AlterConfigsRequest, AlterConfigsHandler(store)),
        serve(IncrementalAlterConfigsRequest, IncrementalAlterConfigsHandler(store)),
        serve(AlterClientQuotasRequest, AlterClientQuotasHandler(store)),
        serve(UnregisterBrokerRequest, UnregisterBrokerHandler(store)),
        serve(UpdateFeaturesRequest, UpdateFeaturesHandler(store, lambda: store.kraft_version)),
        serve(DescribeQuorumRequest, DescribeQuorumHandler(desk)),
        serve(AddRaftVoterRequest, AddRaftVoterHandler(desk)),
        serve(RemoveRaftVoterRequest, RemoveRaftVoterHandler(desk)),
    ]
