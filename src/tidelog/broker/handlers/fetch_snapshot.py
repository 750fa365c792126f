"""FetchSnapshot (key 59), v0-v1: a piece of a snapshot of the metadata (KIP-630). v1: directory ids (KIP-853)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.raft.answering import QuorumDesk, names_metadata
from tidelog.broker.raft.metadata_log import MetadataLog
from tidelog.broker.raft.requests import FETCH_BYTES_MAX
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.effects import AnswerFetchSnapshot
from tidelog.raft.events import SnapshotRequested
from tidelog.raft.ports import SnapshotId
from tidelog.raft.replicas import ReplicaKey
from tidelog.wire.messages import fetch_snapshot as wire


class FetchSnapshotHandler:
    def __init__(self, desk: QuorumDesk, metadata_log: MetadataLog) -> None:
        self._desk = desk
        self._log = metadata_log

    def __call__(self, call: Call, request: wire.FetchSnapshotRequest) -> wire.FetchSnapshotResponse | None:
        if not self._desk.is_ours(request.cluster_id):
            return wire.FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or not names_metadata(request.topics[0].name, len(request.topics[0].partitions)):
            return wire.FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        asked = request.topics[0].partitions[0]
        wanted = SnapshotId(Offset(asked.snapshot_id.end_offset), LeaderEpoch(asked.snapshot_id.epoch))

        def answer(effect: AnswerFetchSnapshot) -> None:
            data = self._piece(effect, min(request.max_bytes, FETCH_BYTES_MAX))
            topics = [wire.FetchSnapshotResponseTopicSnapshot(request.topics[0].name, [data])]
            endpoints = self._desk.endpoint_of(effect.leader, wire.NodeEndpoint, told=call.header.api_version >= 1)
            call.answer(wire.FetchSnapshotResponse(topics=topics, node_endpoints=endpoints))

        self._desk.ask(
            lambda call_id: SnapshotRequested(
                call_id,
                ReplicaKey(NodeId(request.replica_id), asked.replica_directory_id),
                LeaderEpoch(asked.current_leader_epoch),
                wanted,
                asked.position,
            ),
            answer,
        )
        return None

    def _piece(self, effect: AnswerFetchSnapshot, max_bytes: int) -> wire.FetchSnapshotResponsePartitionSnapshot:
        data = wire.FetchSnapshotResponsePartitionSnapshot(
            error_code=effect.error,
            snapshot_id=wire.SnapshotId(effect.snapshot.end_offset, effect.snapshot.epoch),
            current_leader=wire.LeaderIdAndEpoch(effect.leader, effect.epoch),
            position=effect.position,
        )
        if effect.error is not ErrorCode.NONE:
            return data
        found = self._log.read_snapshot_piece(effect.snapshot, effect.position, max_bytes)
        if found is None:
            data.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not 0 <= effect.position < found[0]:
            data.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        else:
            data.size, data.unaligned_records = found
        return data
