"""Metadata (key 3), v0-v13. v4: auto creation may be refused. v8: what may be done (KIP-430). v10: topic ids (KIP-516).
v12: look-up by topic id. v13: top-level error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from tidelog.broker.call import Call
from tidelog.metadata.image import BrokerRegistration, ClusterImage, TopicImage
from tidelog.model import operations
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_NODE, ZERO_UUID, NodeId, TopicId
from tidelog.model.names import check_topic_name, is_internal
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FIRST_VERSION_WHERE_EMPTY_MEANS_NONE: Final = 1
FIRST_VERSION_WITH_LOOK_UP_BY_ID: Final = 12
# How many topics one request may bring into being.
AUTO_CREATED_MAX: Final = 100


class Described(NamedTuple):
    """An answer about a topic, and what it was made of."""

    topic: TopicImage
    brokers: Mapping[NodeId, BrokerRegistration]
    described: MetadataResponseTopic


class CreatesTopics(Protocol):
    def create_with_defaults(self, names: list[str], done: Callable[[dict[str, ErrorCode]], None]) -> None: ...


class MetadataHandler:
    def __init__(
        self,
        node_id: NodeId,
        image: Callable[[], ClusterImage],
        cluster_id: str,
        controller: Callable[[], NodeId],
        auto_create: Callable[[], bool],
        topics: CreatesTopics,
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._cluster_id = cluster_id
        self._controller = controller
        self._auto_create = auto_create
        self._topics = topics
        # Made once for each image of a topic and of the brokers: most requests ask for what has not changed.
        self._described: dict[TopicId, Described] = {}

    def __call__(self, call: Call, request: MetadataRequest) -> MetadataResponse | None:
        missing = self._missing(request)
        if not missing:
            return self._answer(call, request, {})
        self._topics.create_with_defaults(missing, lambda errors: call.answer(self._answer(call, request, errors)))
        return None

    def _missing(self, request: MetadataRequest) -> list[str]:
        """Valid names of topics that do not exist and that this request may create."""
        if not request.topics or not request.allow_auto_topic_creation or not self._auto_create():
            return []
        known = self._image().topics_by_name
        missing = []
        for topic in request.topics:
            if topic.name and topic.name not in known and _is_valid(topic.name):
                missing.append(topic.name)
        return missing[:AUTO_CREATED_MAX]

    def _answer(self, call: Call, request: MetadataRequest, errors: dict[str, ErrorCode]) -> MetadataResponse:
        image = self._image()
        version = call.header.api_version
        listener = call.connection.listener_name
        everything = request.topics is None or (not request.topics and version < FIRST_VERSION_WHERE_EMPTY_MEANS_NONE)
        if everything:
            topics = [self._describe(image, topic) for topic in image.topics_by_name.values()]
        else:
            topics = [self._one(image, topic.name, topic.topic_id, errors) for topic in request.topics or ()]
        if request.include_topic_authorized_operations:
            topics = [
                topic if topic.error_code else replace(topic, topic_authorized_operations=operations.OF_TOPIC)
                for topic in topics
            ]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(broker.broker_id, endpoint.host, endpoint.port, broker.rack)
                for broker in self._brokers(image)
                if (endpoint := broker.endpoints.get(listener)) is not None
            ],
            cluster_id=self._cluster_id,
            controller_id=self._controller(),
            topics=topics,
            cluster_authorized_operations=(
                operations.OF_CLUSTER if request.include_cluster_authorized_operations else operations.NOT_TOLD
            ),
        )

    def _brokers(self, image: ClusterImage) -> list[BrokerRegistration]:
        """Those that clients are sent to; while the cluster has let nobody in, the one that was asked.

        It is there, and there are clients that forget everybody, for good, when they are told of no broker at all.
        """
        unfenced = list(image.unfenced_brokers())
        own = image.brokers.get(self._node_id)
        return unfenced if unfenced or own is None else [own]

    def _one(
        self, image: ClusterImage, name: str | None, topic_id: TopicId, errors: dict[str, ErrorCode]
    ) -> MetadataResponseTopic:
        if name is None or topic_id != ZERO_UUID:
            topic = image.topic_by_id(topic_id)
            if topic is None:
                return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
            return self._describe(image, topic)
        topic = image.topic(name)
        if topic is not None:
            return self._describe(image, topic)
        if not _is_valid(name):
            return MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
        return MetadataResponseTopic(errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), name)

    def _describe(self, image: ClusterImage, topic: TopicImage) -> MetadataResponseTopic:
        kept = self._described.get(topic.topic_id)
        if kept is not None and kept.topic is topic and kept.brokers is image.brokers:
            return kept.described
        described = MetadataResponseTopic(
            0,
            topic.name,
            topic.topic_id,
            is_internal(topic.name),
            [
                MetadataResponsePartition(
                    ErrorCode.NONE if partition.leader != NO_NODE else ErrorCode.LEADER_NOT_AVAILABLE,
                    index,
                    partition.leader,
                    partition.leader_epoch,
                    list(partition.replicas),
                    list(partition.isr),
                    [*image.offline_replicas(partition)],
                )
                for index, partition in topic.partitions.items()
            ],
        )
        if len(self._described) > len(image.topics_by_id) + AUTO_CREATED_MAX:
            self._described.clear()  # Deleted topics would pile up otherwise.
        self._described[topic.topic_id] = Described(topic, image.brokers, described)
        return described


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except ProtocolError:
        return False
    return True
