"""ElectLeaders (key 43), v0-v2. v1: unclean elections, too (KIP-460)."""

from __future__ import annotations

from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.leader_changes import Elected, elect_leaders, named
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

FIRST_VERSION_WITH_ERROR: Final = 1


class ElectLeadersHandler:
    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def __call__(self, call: Call, request: ElectLeadersRequest) -> None:
        asked = request.topic_partitions
        partitions = None if asked is None else [(topic.topic, topic.partitions) for topic in asked]

        def answer(outcome: list[Elected] | ProtocolError) -> None:
            error = ErrorCode.NONE
            if isinstance(outcome, ProtocolError):
                error, refusal = outcome.code, outcome
                outcome = [Elected(*place, refusal) for place in named(partitions or ())]
            with_error = call.header.api_version >= FIRST_VERSION_WITH_ERROR
            call.answer(
                ElectLeadersResponse(
                    error_code=error if with_error else ErrorCode.NONE, replica_election_results=_results(outcome)
                )
            )

        self._commands.submit(lambda controller: elect_leaders(controller, request.election_type, partitions), answer)


def _results(outcome: list[Elected]) -> list[ReplicaElectionResult]:
    topics: dict[str, ReplicaElectionResult] = {}
    for topic, partition, error in outcome:
        result = topics.setdefault(topic, ReplicaElectionResult(topic, []))
        result.partition_result.append(
            PartitionResult(
                partition,
                ErrorCode.NONE if error is None else error.code,
                None if error is None else error.message,
            )
        )
    return list(topics.values())
