"""BeginQuorumEpoch (key 53), v0-v1: a leader makes itself known. v1: directory ids and endpoints (KIP-853)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.raft.answering import QuorumDesk, names_metadata
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.raft.effects import AnswerBeginEpoch
from tidelog.raft.events import BeginEpochRequested
from tidelog.raft.replicas import ReplicaKey
from tidelog.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BeginQuorumEpochResponsePartitionData,
    BeginQuorumEpochResponseTopicData,
    NodeEndpoint,
)


class BeginQuorumEpochHandler:
    def __init__(self, desk: QuorumDesk) -> None:
        self._desk = desk

    def __call__(self, call: Call, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse | None:
        if not self._desk.is_ours(request.cluster_id):
            return BeginQuorumEpochResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or not names_metadata(
            request.topics[0].topic_name, len(request.topics[0].partitions)
        ):
            return BeginQuorumEpochResponse(ErrorCode.INVALID_REQUEST)
        begun = request.topics[0].partitions[0]
        voter = ReplicaKey(NodeId(request.voter_id), begun.voter_directory_id) if request.voter_id >= 0 else None
        for point in request.leader_endpoints[:1]:
            self._desk.driver.addresses.learn(begun.leader_id, point.host, point.port)

        def answer(effect: AnswerBeginEpoch) -> None:
            data = BeginQuorumEpochResponsePartitionData(0, effect.error, effect.leader, effect.epoch)
            topics = [BeginQuorumEpochResponseTopicData(request.topics[0].topic_name, [data])]
            call.answer(
                BeginQuorumEpochResponse(
                    0, topics, self._desk.endpoint_of(effect.leader, NodeEndpoint, told=call.header.api_version >= 1)
                )
            )

        self._desk.ask(
            lambda call_id: BeginEpochRequested(
                call_id, NodeId(begun.leader_id), LeaderEpoch(begun.leader_epoch), voter
            ),
            answer,
        )
        return None
