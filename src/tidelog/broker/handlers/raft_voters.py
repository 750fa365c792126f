"""AddRaftVoter (key 80), v0-v1, RemoveRaftVoter (key 81), v0, and UpdateRaftVoter (key 82), v0 (KIP-853).

Three requests of one kind: each asks the leader of the quorum to write other voters.
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.raft.answering import QuorumDesk
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId
from tidelog.raft.effects import AnswerVoterChange
from tidelog.raft.events import AddVoter, RemoveVoter, UpdateVoter
from tidelog.raft.replicas import Endpoint, ReplicaKey, Voter
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tidelog.wire.messages.update_raft_voter import CurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse

REMOVE_TIMEOUT_MS: Final = 30_000


class AddRaftVoterHandler:
    def __init__(self, desk: QuorumDesk) -> None:
        self._desk = desk

    def __call__(self, call: Call, request: AddRaftVoterRequest) -> AddRaftVoterResponse | None:
        if not self._desk.is_ours(request.cluster_id):
            return AddRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None)
        voter = Voter(
            ReplicaKey(NodeId(request.voter_id), request.voter_directory_id),
            tuple(Endpoint(point.name, point.host, point.port) for point in request.listeners),
        )

        def answer(effect: AnswerVoterChange) -> None:
            call.answer(AddRaftVoterResponse(error_code=effect.error, error_message=effect.message or None))

        self._desk.ask(lambda call_id: AddVoter(call_id, voter, request.timeout_ms, request.ack_when_committed), answer)
        return None


class RemoveRaftVoterHandler:
    def __init__(self, desk: QuorumDesk) -> None:
        self._desk = desk

    def __call__(self, call: Call, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse | None:
        if not self._desk.is_ours(request.cluster_id):
            return RemoveRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, error_message=None)
        replica = ReplicaKey(NodeId(request.voter_id), request.voter_directory_id)

        def answer(effect: AnswerVoterChange) -> None:
            call.answer(RemoveRaftVoterResponse(error_code=effect.error, error_message=effect.message or None))

        self._desk.ask(lambda call_id: RemoveVoter(call_id, replica, REMOVE_TIMEOUT_MS), answer)
        return None


class UpdateRaftVoterHandler:
    def __init__(self, desk: QuorumDesk) -> None:
        self._desk = desk

    def __call__(self, call: Call, request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse | None:
        if not self._desk.is_ours(request.cluster_id):
            return UpdateRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        levels = request.kraft_version_feature
        voter = Voter(
            ReplicaKey(NodeId(request.voter_id), request.voter_directory_id),
            tuple(Endpoint(point.name, point.host, point.port) for point in request.listeners),
            levels.min_supported_version,
            levels.max_supported_version,
        )

        def answer(effect: AnswerVoterChange) -> None:
            address = self._desk.driver.addresses.get(effect.leader)
            leader = CurrentLeader(effect.leader, effect.epoch)
            if address is not None:
                leader.host, leader.port = address.host, address.port
            call.answer(UpdateRaftVoterResponse(error_code=effect.error, current_leader=leader))

        self._desk.ask(lambda call_id: UpdateVoter(call_id, LeaderEpoch(request.current_leader_epoch), voter), answer)
        return None
