"""Fetch (key 1) of the metadata log on a controller's listener, v12-v18: voters and brokers pull it (KIP-595).

v15: replica state. v17: directory ids (KIP-853). v18: what the replica knows to be committed (KIP-1166).
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.raft.answering import QuorumDesk
from tidelog.broker.raft.metadata_log import METADATA_PARTITION, MetadataLog
from tidelog.broker.raft.requests import FETCH_BYTES_MAX, METADATA_TOPIC_ID
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.effects import AnswerFetch
from tidelog.raft.events import FetchRequested
from tidelog.raft.replicas import ReplicaKey
from tidelog.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)

FIRST_VERSION_WITH_IDS: Final = 13
FIRST_VERSION_WITH_STATE: Final = 15
FIRST_VERSION_WITH_ENDPOINTS: Final = 16


class MetadataFetchHandler:
    def __init__(self, desk: QuorumDesk, metadata_log: MetadataLog) -> None:
        self._desk = desk
        self._log = metadata_log

    def __call__(self, call: Call, request: FetchRequest) -> FetchResponse | None:
        version = call.header.api_version
        if not self._desk.is_ours(request.cluster_id):
            return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if not _is_about_metadata(request, version):
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        asked = request.topics[0].partitions[0]
        replica_id = request.replica_state.replica_id if version >= FIRST_VERSION_WITH_STATE else request.replica_id

        def answer(effect: AnswerFetch) -> None:
            max_bytes = min(request.max_bytes, asked.partition_max_bytes, FETCH_BYTES_MAX)
            call.answer(self._response(effect, max_bytes, version))

        self._desk.ask(
            lambda call_id: FetchRequested(
                call_id,
                ReplicaKey(NodeId(replica_id), asked.replica_directory_id),
                LeaderEpoch(asked.current_leader_epoch),
                Offset(asked.fetch_offset),
                LeaderEpoch(asked.last_fetched_epoch),
                Offset(asked.high_watermark),
                request.max_wait_ms,
            ),
            answer,
        )
        return None

    def _response(self, effect: AnswerFetch, max_bytes: int, version: int) -> FetchResponse:
        data = PartitionData(
            partition_index=0,
            error_code=effect.error,
            high_watermark=effect.high_watermark,
            last_stable_offset=effect.high_watermark,
            log_start_offset=self._log.start_offset,
            current_leader=LeaderIdAndEpoch(effect.leader, effect.epoch),
            aborted_transactions=None,
            records=b"",
        )
        if effect.diverging is not None:
            data.diverging_epoch = EpochEndOffset(effect.diverging.epoch, effect.diverging.end_offset)
        elif effect.snapshot is not None:
            data.snapshot_id = SnapshotId(effect.snapshot.end_offset, effect.snapshot.epoch)
        elif effect.read_from is not None:
            # Read, not sent from the file: a leader that is none any more may cut it while it is being sent.
            data.records = self._log.read(effect.read_from, max_bytes)
        topic = FetchableTopicResponse(METADATA_PARTITION.topic, METADATA_TOPIC_ID, [data])
        told = version >= FIRST_VERSION_WITH_ENDPOINTS
        endpoints = self._desk.endpoint_of(effect.leader, NodeEndpoint, told=told)
        return FetchResponse(responses=[topic], node_endpoints=endpoints)


def _is_about_metadata(request: FetchRequest, version: int) -> bool:
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return False
    topic = request.topics[0]
    if version >= FIRST_VERSION_WITH_IDS:
        return topic.topic_id == METADATA_TOPIC_ID
    return topic.topic == METADATA_PARTITION.topic
