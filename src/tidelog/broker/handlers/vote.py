"""Vote (key 52), v0-v2. v1: directory ids (KIP-853). v2: pre-votes (KIP-996)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.raft.answering import QuorumDesk, names_metadata
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft.effects import AnswerVote
from tidelog.raft.events import VoteRequested
from tidelog.raft.replicas import ReplicaKey
from tidelog.wire.messages.vote import (
    NodeEndpoint,
    VoteRequest,
    VoteResponse,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)


class VoteHandler:
    def __init__(self, desk: QuorumDesk) -> None:
        self._desk = desk

    def __call__(self, call: Call, request: VoteRequest) -> VoteResponse | None:
        if not self._desk.is_ours(request.cluster_id):
            return VoteResponse(ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or not names_metadata(
            request.topics[0].topic_name, len(request.topics[0].partitions)
        ):
            return VoteResponse(ErrorCode.INVALID_REQUEST)
        asked = request.topics[0].partitions[0]
        voter = ReplicaKey(NodeId(request.voter_id), asked.voter_directory_id) if request.voter_id >= 0 else None

        def answer(effect: AnswerVote) -> None:
            data = VoteResponsePartitionData(0, effect.error, effect.leader, effect.epoch, effect.granted)
            topics = [VoteResponseTopicData(request.topics[0].topic_name, [data])]
            call.answer(
                VoteResponse(
                    0, topics, self._desk.endpoint_of(effect.leader, NodeEndpoint, told=call.header.api_version >= 1)
                )
            )

        self._desk.ask(
            lambda call_id: VoteRequested(
                call_id,
                ReplicaKey(NodeId(asked.replica_id), asked.replica_directory_id),
                LeaderEpoch(asked.replica_epoch),
                LeaderEpoch(asked.last_offset_epoch),
                Offset(asked.last_offset),
                asked.pre_vote,
                voter,
            ),
            answer,
        )
        return None
