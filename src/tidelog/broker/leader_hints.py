"""Leader hints (KIP-951): who leads a partition that was asked for in the wrong place, and where that broker listens.

The produce and fetch handlers call these for answers that have such errors, and for no others, so that a client need
not ask for metadata first. What is told is what this broker's metadata says, which may be out of date, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.broker.call import Call
from tidelog.metadata.image import ClusterImage, TopicImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionIndex
from tidelog.wire.messages import fetch, produce

FIRST_PRODUCE_VERSION: Final = 10
FIRST_FETCH_VERSION: Final = 16
HINTED_FETCH_ERRORS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def hint_producer(image: ClusterImage, call: Call, response: produce.ProduceResponse) -> None:
    """Name the leaders of partitions that are not led here."""
    if call.header.api_version < FIRST_PRODUCE_VERSION:
        return
    leaders = set()
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                known = image.topic(topic.name) if topic.name else image.topic_by_id(topic.topic_id)
                leader, epoch = _leader(known, answer.index)
                answer.current_leader = produce.LeaderIdAndEpoch(leader, epoch)
                leaders.add(leader)
    response.node_endpoints = [produce.NodeEndpoint(*endpoint) for endpoint in _endpoints(image, call, leaders)]


def hint_reader(image: ClusterImage, call: Call, response: fetch.FetchResponse) -> None:
    """Name the leaders of partitions that are not served here, or not in the epoch that the reader knows."""
    if call.header.api_version < FIRST_FETCH_VERSION:
        return
    leaders = set()
    for topic in response.responses:
        for data in topic.partitions:
            if data.error_code in HINTED_FETCH_ERRORS:
                leader, epoch = _leader(image.topic_by_id(topic.topic_id), data.partition_index)
                data.current_leader = fetch.LeaderIdAndEpoch(leader, epoch)
                leaders.add(leader)
    response.node_endpoints = [fetch.NodeEndpoint(*endpoint) for endpoint in _endpoints(image, call, leaders)]


def _leader(topic: TopicImage | None, index: int) -> tuple[int, int]:
    partition = None if topic is None else topic.partitions.get(PartitionIndex(index))
    return (-1, -1) if partition is None else (partition.leader, partition.leader_epoch)


def _endpoints(image: ClusterImage, call: Call, nodes: Iterable[int]) -> list[tuple[int, str, int, str | None]]:
    """Where those of the nodes that are there listen for clients such as this one."""
    listener = call.connection.listener_name
    found = []
    for node in sorted(nodes):
        broker = image.brokers.get(NodeId(node))
        endpoint = None if broker is None or broker.fenced else broker.endpoints.get(listener)
        if broker is not None and endpoint is not None:
            found.append((node, endpoint.host, endpoint.port, broker.rack))
    return found
