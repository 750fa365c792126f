"""The blocking admin client: topics, partitions, settings, offsets, records, brokers, directories.

Used by the command line and by programs. Methods for many things give an answer for each, of which some may be the
`Rejected` that a broker answered; `accepted` raises it. Requests and answers are made and read in `core/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from tidelog.client.cluster import Cluster
from tidelog.client.core import brokers, offsets, settings, topics
from tidelog.client.core.described import (
    LATEST,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    CreatedTopic,
    LogDir,
    NewTopic,
    OffsetAt,
    Resource,
    ResourceType,
    TopicDescription,
)
from tidelog.client.core.metadata import Node, Topic
from tidelog.client.deadline import Deadline
from tidelog.client.errors import Rejected, UnsupportedByBroker, check
from tidelog.client.leaders import ask_leaders
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.create_partitions import CreatePartitionsResponse
from tidelog.wire.messages.create_topics import CreateTopicsResponse
from tidelog.wire.messages.delete_records import DeleteRecordsResponse
from tidelog.wire.messages.delete_topics import DeleteTopicsResponse
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.describe_configs import DescribeConfigsResponse
from tidelog.wire.messages.describe_log_dirs import DescribeLogDirsResponse
from tidelog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsResponse
from tidelog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from tidelog.wire.messages.list_offsets import ListOffsetsResponse
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tidelog.wire.schema import Request, Response, VersionRange

# For `delete_records`: everything that a consumer can read.
HIGH_WATERMARK: Final = Offset(-1)
PARTITIONS_PER_ANSWER: Final = 2000
# How long a topic may be unknown before it counts as missing: one just created is not known to every broker at once.
TOPIC_WAIT_S: Final = 1.0

R = TypeVar("R", bound=Response)
T = TypeVar("T")


def accepted(answer: T | Rejected) -> T:
    """The answer, or raise the rejection that came instead."""
    if isinstance(answer, Rejected):
        raise answer
    return answer


class Admin:
    """Asks a cluster about itself and changes it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def cluster(self) -> Cluster:
        """What it asks."""
        return self._cluster

    def list_topics(self) -> list[Topic]:
        """Every topic by name."""

        def ask(deadline: Deadline) -> list[Topic]:
            self._cluster.forget()
            known = self._cluster.refresh(None, deadline).topics
            return [known[name] for name in sorted(known)]

        return self._cluster.retry(ask)

    def partitions_of(self, name: str) -> list[TopicPartition]:
        """Every partition of a topic, which may have been created a moment ago."""
        found = self._cluster.retry(
            lambda deadline: self._cluster.topic(TopicName(name), deadline),
            self._cluster.deadline(TOPIC_WAIT_S),
            await_topic=True,
        )
        return [TopicPartition(found.name, partition.index) for partition in found.partitions]

    def describe_topics(
        self, names: Iterable[TopicName], *, partitions_per_answer: int = PARTITIONS_PER_ANSWER
    ) -> dict[TopicName, TopicDescription | Rejected]:
        """Partitions, leaders and replicas of some topics."""
        wanted = sorted(set(names))

        def ask(deadline: Deadline) -> dict[TopicName, TopicDescription | Rejected]:
            described, cursor, more = topics.DescribedTopics(), None, True
            while more:
                request = topics.describe_topics(wanted, partitions_per_answer, cursor)
                answer = self._cluster.call_any(request, DescribeTopicPartitionsResponse, deadline)
                described.add(answer.topics)
                cursor, more = answer.next_cursor, answer.next_cursor is not None
            return described.all()

        def ask_metadata(deadline: Deadline) -> dict[TopicName, TopicDescription | Rejected]:
            self._cluster.forget()
            known = self._cluster.refresh(wanted, deadline).topics
            return {name: topics.described_by_metadata(known[name]) for name in wanted}

        if not wanted:
            return {}
        try:
            return self._cluster.retry(ask)
        except UnsupportedByBroker:
            return self._cluster.retry(ask_metadata)

    def create_topics(
        self, new: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[TopicName, CreatedTopic | Rejected]:
        """Create topics, or only say whether they could be."""
        return self._change(
            lambda timeout_ms: topics.create_topics(new, timeout_ms, validate_only),
            CreateTopicsResponse,
            topics.created_topics,
        )

    def delete_topics(self, names: Sequence[TopicName]) -> dict[TopicName, Rejected | None]:
        """Delete topics with all that they hold."""
        return self._change(
            lambda timeout_ms: topics.delete_topics(names, timeout_ms), DeleteTopicsResponse, topics.deleted_topics
        )

    def create_partitions(
        self,
        counts: Mapping[TopicName, int],
        *,
        assignments: Mapping[TopicName, Sequence[Sequence[NodeId]]] | None = None,
        validate_only: bool = False,
    ) -> dict[TopicName, Rejected | None]:
        """Let topics have this many partitions. Assignments name the replicas of the new ones."""
        return self._change(
            lambda timeout_ms: topics.create_partitions(counts, assignments or {}, timeout_ms, validate_only),
            CreatePartitionsResponse,
            topics.created_partitions,
        )

    def describe_configs(self, resource: Resource, *, documentation: bool = False) -> list[ConfigEntry]:
        """Every setting of a topic or broker."""
        request = settings.describe_configs([resource], documentation)

        def ask(deadline: Deadline) -> list[ConfigEntry]:
            answer = self._ask_owner(resource, request, DescribeConfigsResponse, deadline)
            return accepted(settings.described_configs(answer)[resource])

        return self._cluster.retry(ask)

    def describe_topic_configs(self, names: Iterable[TopicName]) -> dict[TopicName, list[ConfigEntry] | Rejected]:
        """Every setting of each of some topics."""
        resources = [Resource(ResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        request = settings.describe_configs(resources, False)
        answer = self._cluster.retry(
            lambda deadline: self._cluster.call_any(request, DescribeConfigsResponse, deadline)
        )
        return {TopicName(resource.name): found for resource, found in settings.described_configs(answer).items()}

    def alter_configs(
        self,
        resource: Resource,
        changes: Mapping[str, tuple[ConfigChange, str | None]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change single settings of a topic or broker; all of them or none."""
        request = settings.alter_configs(resource, changes, validate_only)

        def ask(deadline: Deadline) -> None:
            answer = self._ask_owner(resource, request, IncrementalAlterConfigsResponse, deadline)
            for result in answer.responses:
                check(result.error_code, result.error_message)

        self._cluster.retry(ask)

    def list_config_resources(self, *types: ResourceType) -> list[Resource]:
        """What has settings: topics and brokers because they exist, groups when they have some of their own."""
        request = ListConfigResourcesRequest([int(kind) for kind in types])

        def ask(deadline: Deadline) -> list[Resource]:
            answer = self._cluster.call_any(request, ListConfigResourcesResponse, deadline)
            check(answer.error_code)
            return [
                Resource(ResourceType(resource.resource_type), resource.resource_name)
                for resource in answer.config_resources
            ]

        return self._cluster.retry(ask)

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt | Rejected]:
        """The offset at a time in milliseconds, or at EARLIEST, LATEST or MAX_TIMESTAMP."""
        return list_offsets(self._cluster, timestamps, read_committed, self._cluster.deadline())

    def offsets_at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, Offset]:
        """The offset at a time, or at EARLIEST or LATEST; the end where no record is that young."""
        answers = self.list_offsets(dict.fromkeys(partitions, timestamp_ms))
        found = {partition: accepted(answer).offset for partition, answer in answers.items()}
        late = [partition for partition, offset in found.items() if offset < 0]
        return found | (self.offsets_at(late, LATEST) if late and timestamp_ms != LATEST else {})

    def delete_records(self, before: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset | Rejected]:
        """Delete what is before an offset; HIGH_WATERMARK for everything. Gives where each partition begins now."""

        def ask(
            node: Node, questions: Mapping[TopicPartition, Offset], deadline: Deadline
        ) -> dict[TopicPartition, Offset | Rejected]:
            request = offsets.delete_records(questions, _milliseconds(deadline))
            return offsets.deleted_records(self._cluster.call(node, request, DeleteRecordsResponse, deadline))

        return ask_leaders(self._cluster, before, ask, self._cluster.deadline())

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return self._cluster.retry(
            lambda deadline: brokers.described_cluster(
                self._cluster.call_any(DescribeClusterRequest(), DescribeClusterResponse, deadline)
            )
        )

    def unregister_broker(self, node_id: NodeId) -> None:
        """Forget a broker that will not come back."""

        def ask(deadline: Deadline) -> None:
            answer = self._cluster.call_controller(UnregisterBrokerRequest(node_id), UnregisterBrokerResponse, deadline)
            check(answer.error_code, answer.error_message)

        self._cluster.retry(ask)

    def describe_log_dirs(
        self, node_id: NodeId, partitions: Mapping[TopicName, Sequence[PartitionIndex]] | None = None
    ) -> list[LogDir]:
        """What one broker keeps in its directories, of all topics or of some partitions."""
        request = brokers.describe_log_dirs(partitions)

        def ask(deadline: Deadline) -> list[LogDir]:
            node = self._cluster.node(node_id, deadline)
            return brokers.described_log_dirs(self._cluster.call(node, request, DescribeLogDirsResponse, deadline))

        return self._cluster.retry(ask)

    def api_versions(self, node: Node) -> Mapping[int, VersionRange]:
        """What a broker serves, by API key."""
        return self._cluster.retry(lambda deadline: self._cluster.connection(node, deadline).served)

    def _change(
        self, request: Callable[[int], Request], response: type[R], read: Callable[[R], dict[TopicName, T]]
    ) -> dict[TopicName, T]:
        """Ask the controller, again where it has moved; what was known of topics is out of date afterwards."""

        def ask(deadline: Deadline) -> dict[TopicName, T]:
            answers = read(self._cluster.call_controller(request(_milliseconds(deadline)), response, deadline))
            for answer in answers.values():
                if isinstance(answer, Rejected) and answer.code == ErrorCode.NOT_CONTROLLER:
                    raise answer
            return answers

        answers = self._cluster.retry(ask)
        self._cluster.forget()
        return answers

    def _ask_owner(self, resource: Resource, request: Request, response: type[R], deadline: Deadline) -> R:
        """A broker answers for its own settings; everything else any broker knows or forwards."""
        if resource.type not in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) or not resource.name:
            return self._cluster.call_any(request, response, deadline)
        node = self._cluster.node(NodeId(int(resource.name)), deadline)
        return self._cluster.call(node, request, response, deadline)


def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], read_committed: bool, deadline: Deadline
) -> dict[TopicPartition, OffsetAt | Rejected]:
    """Ask each leader for offsets by time; also how a consumer finds where to begin."""

    def ask(
        node: Node, questions: Mapping[TopicPartition, int], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAt | Rejected]:
        request = offsets.list_offsets(questions, read_committed, _milliseconds(deadline))
        return offsets.listed_offsets(cluster.call(node, request, ListOffsetsResponse, deadline))

    return ask_leaders(cluster, timestamps, ask, deadline)


def _milliseconds(deadline: Deadline) -> int:
    return int(deadline.remaining_s() * 1000)
