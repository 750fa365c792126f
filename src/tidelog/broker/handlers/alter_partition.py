"""AlterPartition (key 56), v2-v3: the leader of partitions asks the controller for other ISRs (KIP-497)."""

from __future__ import annotations

from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.commands import Commands
from tidelog.controller.isr_changes import ANY_EPOCH, ChangedIsr, WantedIsr, alter_partitions
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionIndex, TopicId
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

FIRST_VERSION_WITH_BROKER_EPOCHS: Final = 3


class AlterPartitionHandler:
    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def __call__(self, call: Call, request: AlterPartitionRequest) -> None:
        with_epochs = call.header.api_version >= FIRST_VERSION_WITH_BROKER_EPOCHS
        wanted = [
            _wanted(topic.topic_id, partition, with_epochs)
            for topic in request.topics
            for partition in topic.partitions
        ]

        def answer(outcome: list[ChangedIsr] | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                call.answer(AlterPartitionResponse(error_code=outcome.code))
            else:
                call.answer(AlterPartitionResponse(topics=_topics(outcome)))

        broker_id = NodeId(request.broker_id)
        self._commands.submit(
            lambda controller: alter_partitions(controller, broker_id, request.broker_epoch, wanted), answer
        )


def _wanted(topic_id: TopicId, partition: AlterPartitionRequestPartitionData, with_epochs: bool) -> WantedIsr:
    return WantedIsr(
        topic_id,
        PartitionIndex(partition.partition_index),
        LeaderEpoch(partition.leader_epoch),
        partition.partition_epoch,
        [(NodeId(member.broker_id), member.broker_epoch) for member in partition.new_isr_with_epochs]
        if with_epochs
        else [(NodeId(node), ANY_EPOCH) for node in partition.new_isr],
        partition.leader_recovery_state,
    )


def _topics(outcome: list[ChangedIsr]) -> list[AlterPartitionResponseTopicData]:
    topics: dict[TopicId, AlterPartitionResponseTopicData] = {}
    for topic_id, index, result in outcome:
        topic = topics.setdefault(topic_id, AlterPartitionResponseTopicData(topic_id, []))
        if isinstance(result, ProtocolError):
            topic.partitions.append(AlterPartitionResponsePartitionData(index, result.code))
        else:
            topic.partitions.append(
                AlterPartitionResponsePartitionData(
                    index,
                    ErrorCode.NONE,
                    result.leader,
                    result.leader_epoch,
                    list(result.isr),
                    result.leader_recovery_state,
                    result.partition_epoch,
                )
            )
    return list(topics.values())
