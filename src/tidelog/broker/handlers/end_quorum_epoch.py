"""EndQuorumEpoch (key 54), v0-v1: a leader resigns and names who should follow it. v1: directory ids (KIP-853)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.raft.answering import QuorumDesk, names_metadata
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.raft.effects import AnswerEndEpoch
from tidelog.raft.events import EndEpochRequested
from tidelog.raft.replicas import ReplicaKey
from tidelog.wire.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartitionData,
    EndQuorumEpochResponse,
    EndQuorumEpochResponsePartitionData,
    EndQuorumEpochResponseTopicData,
    NodeEndpoint,
)


class EndQuorumEpochHandler:
    def __init__(self, desk: QuorumDesk) -> None:
        self._desk = desk

    def __call__(self, call: Call, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse | None:
        if not self._desk.is_ours(request.cluster_id):
            return EndQuorumEpochResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or not names_metadata(
            request.topics[0].topic_name, len(request.topics[0].partitions)
        ):
            return EndQuorumEpochResponse(ErrorCode.INVALID_REQUEST)
        ended = request.topics[0].partitions[0]
        for point in request.leader_endpoints[:1]:
            self._desk.driver.addresses.learn(ended.leader_id, point.host, point.port)

        def answer(effect: AnswerEndEpoch) -> None:
            data = EndQuorumEpochResponsePartitionData(0, effect.error, effect.leader, effect.epoch)
            topics = [EndQuorumEpochResponseTopicData(request.topics[0].topic_name, [data])]
            call.answer(
                EndQuorumEpochResponse(
                    0, topics, self._desk.endpoint_of(effect.leader, NodeEndpoint, told=call.header.api_version >= 1)
                )
            )

        self._desk.ask(
            lambda call_id: EndEpochRequested(
                call_id, NodeId(ended.leader_id), LeaderEpoch(ended.leader_epoch), _successors(ended)
            ),
            answer,
        )
        return None


def _successors(ended: EndQuorumEpochRequestPartitionData) -> tuple[ReplicaKey, ...]:
    if ended.preferred_candidates:
        return tuple(
            ReplicaKey(NodeId(one.candidate_id), one.candidate_directory_id) for one in ended.preferred_candidates
        )
    return tuple(ReplicaKey(NodeId(one)) for one in ended.preferred_successors)
