"""The APIs by which the nodes of a quorum speak with each other. Loaded by a controller that others can reach."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.call import Call
from tidelog.broker.controller_channel import WhoLeads
from tidelog.broker.dispatch import Served, serve
from tidelog.broker.handlers.begin_quorum_epoch import BeginQuorumEpochHandler
from tidelog.broker.handlers.describe_controllers import DescribeControllersHandler
from tidelog.broker.handlers.end_quorum_epoch import EndQuorumEpochHandler
from tidelog.broker.handlers.envelope import EnvelopeHandler
from tidelog.broker.handlers.fetch_snapshot import FetchSnapshotHandler
from tidelog.broker.handlers.metadata_fetch import MetadataFetchHandler
from tidelog.broker.handlers.raft_voters import UpdateRaftVoterHandler
from tidelog.broker.handlers.vote import VoteHandler
from tidelog.broker.raft.answering import QuorumDesk
from tidelog.broker.raft.metadata_log import MetadataLog
from tidelog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from tidelog.wire.messages.envelope import EnvelopeRequest
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest
from tidelog.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from tidelog.wire.messages.vote import VoteRequest


def quorum_apis(
    desk: QuorumDesk, metadata_log: MetadataLog, store: WhoLeads, handle_inner: Callable[[Call, memoryview], bool]
) -> list[Served]:
    """`handle_inner` routes what comes in an Envelope."""
    return [
        serve(EnvelopeRequest, EnvelopeHandler(store, handle_inner)),
        serve(VoteRequest, VoteHandler(desk)),
        serve(BeginQuorumEpochRequest, BeginQuorumEpochHandler(desk)),
        serve(EndQuorumEpochRequest, EndQuorumEpochHandler(desk)),
        serve(FetchRequest, MetadataFetchHandler(desk, metadata_log), "12-18"),
        serve(FetchSnapshotRequest, FetchSnapshotHandler(desk, metadata_log)),
        serve(UpdateRaftVoterRequest, UpdateRaftVoterHandler(desk)),
        serve(DescribeClusterRequest, DescribeControllersHandler(desk)),
    ]
