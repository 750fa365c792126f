"""ListPartitionReassignments (key 46), v0 (KIP-455): the partitions whose replicas are being moved."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.call import Call
from tidelog.metadata.image import ClusterImage, TopicImage
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


class ListPartitionReassignmentsHandler:
    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def __call__(self, call: Call, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
        image = self._image()
        asked = (
            None if request.topics is None else {topic.name: set(topic.partition_indexes) for topic in request.topics}
        )
        names = list(image.topics_by_name) if asked is None else list(asked)
        moving = []
        for name in names:
            topic = image.topic(name)
            partitions = [] if topic is None else _moving(topic, None if asked is None else asked[name])
            if partitions:
                moving.append(OngoingTopicReassignment(name, partitions))
        return ListPartitionReassignmentsResponse(error_message=None, topics=moving)


def _moving(topic: TopicImage, wanted: set[int] | None) -> list[OngoingPartitionReassignment]:
    return [
        OngoingPartitionReassignment(
            index, list(partition.replicas), list(partition.adding_replicas), list(partition.removing_replicas)
        )
        for index, partition in topic.partitions.items()
        if partition.reassigning and (wanted is None or index in wanted)
    ]
