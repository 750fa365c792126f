"""The blocking client for leader elections: give partitions back to their preferred leader, or any leader at all."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from tidelog.client.cluster import Cluster
from tidelog.client.core.offsets import by_topic
from tidelog.client.deadline import Deadline
from tidelog.client.errors import Rejected, check, rejection
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions


class ElectionType(IntEnum):
    """PREFERRED: the first replica. UNCLEAN: any live one where nobody leads, though records may be lost."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    cluster: Cluster, kind: ElectionType, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Rejected | None]:
    """Elect leaders of some partitions, or of all that need it."""
    asked = None
    if partitions is not None:
        named = by_topic(dict.fromkeys(partitions))
        asked = [TopicPartitions(name, [int(index) for index, _ in rows]) for name, rows in named.items()]

    def ask(deadline: Deadline) -> dict[TopicPartition, Rejected | None]:
        request = ElectLeadersRequest(kind, asked, int(deadline.remaining_s() * 1000))
        answer = cluster.call_controller(request, ElectLeadersResponse, deadline)
        check(answer.error_code)
        return {
            TopicPartition(TopicName(topic.topic), PartitionIndex(result.partition_id)): rejection(
                result.error_code, result.error_message
            )
            for topic in answer.replica_election_results
            for result in topic.partition_result
        }

    return cluster.retry(ask)
