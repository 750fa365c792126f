"""AlterPartitionReassignments (key 45), v0-v1: move replicas to other brokers (KIP-455). v1: whether their number may
change (KIP-860)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.reassignments import Reassigned, WantedReplicas, reassign
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


class AlterPartitionReassignmentsHandler:
    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def __call__(self, call: Call, request: AlterPartitionReassignmentsRequest) -> None:
        wanted = [
            WantedReplicas(topic.name, partition.partition_index, partition.replicas)
            for topic in request.topics
            for partition in topic.partitions
        ]

        def answer(outcome: list[Reassigned] | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                call.answer(AlterPartitionReassignmentsResponse(error_code=outcome.code, error_message=outcome.message))
            else:
                call.answer(AlterPartitionReassignmentsResponse(error_message=None, responses=_topics(outcome)))

        self._commands.submit(
            lambda controller: reassign(controller, wanted, may_change_factor=request.allow_replication_factor_change),
            answer,
        )


def _topics(outcome: list[Reassigned]) -> list[ReassignableTopicResponse]:
    topics: dict[str, ReassignableTopicResponse] = {}
    for name, partition, error in outcome:
        topic = topics.setdefault(name, ReassignableTopicResponse(name, []))
        topic.partitions.append(
            ReassignablePartitionResponse(
                partition,
                ErrorCode.NONE if error is None else error.code,
                None if error is None else error.message,
            )
        )
    return list(topics.values())
