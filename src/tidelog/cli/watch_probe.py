"""How `tidelog watch` looks at a cluster: a thread for the metadata and one for each broker, so that nothing that hangs
holds up the picture.

Each broker is asked for the end offsets of the replicas that it holds, as Kafka's own debugging tools ask: a follower
answers, too. What a broker said last counts for a short while; then it does not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tidelog.cli.kafka.topic_filter import TopicFilter
from tidelog.cli.watch_model import NOBODY, Snapshot, WatchedBroker, WatchedPartition
from tidelog.client.admin import Admin
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import LATEST, TopicDescription
from tidelog.client.core.metadata import Node
from tidelog.client.core.offsets import by_topic
from tidelog.client.errors import ClientError, UnsupportedByBroker
from tidelog.client.quorum import Quorum, describe_quorum
from tidelog.client.security import NO_SECURITY, Security
from tidelog.model.ids import NodeId, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

CLIENT_ID: Final = "tidelog-watch"
REQUEST_SECONDS_MAX: Final = 1.0
# For this long an answer is good; after that its broker is shown as silent.
FRESH_SECONDS: Final = 2.5
PARTITIONS_MAX: Final = 200
UNKNOWN_ADDRESS: Final = "─"
CONSUMER: Final = -1
# Asks for the end of the log instead of the high watermark, and followers as well as leaders.
DEBUGGING_REPLICA: Final = -2


@dataclass(slots=True)
class _Told:
    """What one broker said last. Written by its thread, whole."""

    at: float = float("-inf")
    ends: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    high_watermarks: Mapping[TopicPartition, Offset] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Known:
    """The metadata as some broker told it."""

    cluster_id: str = ""
    controller: NodeId = NOBODY
    nodes: Mapping[NodeId, Node] = field(default_factory=dict)
    topics: tuple[TopicDescription, ...] = ()
    hidden: int = 0
    quorum: Quorum | None = None


class Watcher:
    """Looks at a cluster again and again until closed. `snapshot` never waits."""

    def __init__(
        self,
        bootstrap: str,
        *,
        topics: str | None,
        internal: bool,
        interval_s: float,
        security: Security = NO_SECURITY,
    ) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._filter = None if topics is None else TopicFilter(topics)
        self._internal = internal
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._known: _Known | None = None
        self._told: dict[NodeId, _Told] = {}
        # Brokers that were seen once stay in the picture, so that one sees that they are gone.
        self._nodes: dict[NodeId, Node] = {}
        self.failure: ClientError | None = None

    def __enter__(self) -> Watcher:
        """Look once, so that a cluster that is not there is said at once."""
        with self._connect(self._bootstrap) as cluster:
            self._learn(self._ask_metadata(cluster))
        self._run(self._watch_metadata)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()

    def wait_for_all(self, seconds_max: float) -> None:
        """Until every broker has answered once, or time is up."""
        end = time.monotonic() + seconds_max
        while time.monotonic() < end:
            if all(told.at > 0 for told in list(self._told.values())):
                return
            time.sleep(0.01)

    def snapshot(self) -> Snapshot:
        """The cluster as it is known now."""
        known, now = self._known or _Known(), time.monotonic()
        fresh = {node: told for node, told in list(self._told.items()) if now - told.at <= FRESH_SECONDS}
        # Who holds a replica is in the picture even if it was gone before we came.
        named = {node for topic in known.topics for one in topic.partitions for node in one.replicas}
        brokers = (
            WatchedBroker(node, str(self._nodes.get(node, UNKNOWN_ADDRESS)), node in known.nodes, node in fresh)
            for node in sorted(named | self._nodes.keys())
        )
        return Snapshot(
            time.time(),
            known.cluster_id,
            known.controller,
            tuple(brokers),
            tuple(_partitions(known.topics, fresh)),
            known.quorum,
            known.hidden,
        )

    # The thread of the metadata

    def _watch_metadata(self) -> None:
        turn = 0
        while not self._stopped.is_set():
            with self._connect(self._addresses(turn)) as cluster:
                try:
                    while not self._stopped.wait(self._interval_s):
                        self._learn(self._ask_metadata(cluster))
                        self.failure = None
                except ClientError as error:
                    self.failure = error
                    turn += 1

    def _addresses(self, turn: int) -> str:
        """All that are known, each time another one first: one that hangs must not be asked again and again."""
        known = [str(node) for node in self._nodes.values()]
        first = turn % len(known)
        return ",".join([*known[first:], *known[:first], self._bootstrap])

    def _ask_metadata(self, cluster: Cluster) -> _Known:
        admin = Admin(cluster)
        described = admin.describe_cluster()
        names = [topic.name for topic in admin.list_topics() if self._is_wanted(topic.name, topic.internal)]
        topics: list[TopicDescription] = []
        room = PARTITIONS_MAX
        hidden = 0
        for topic in admin.describe_topics(names).values() if names else ():
            if isinstance(topic, TopicDescription):
                topics.append(TopicDescription(topic.name, topic.id, topic.internal, topic.partitions[: max(room, 0)]))
                hidden += max(len(topic.partitions) - max(room, 0), 0)
                room -= len(topic.partitions)
        try:
            quorum = describe_quorum(cluster)
        except UnsupportedByBroker:
            quorum = None
        nodes = {node.id: node for node in described.brokers if node.id not in described.fenced}
        # A broker names itself as controller: it passes on what is for the controller. The quorum knows who it is.
        controller = described.controller if quorum is None else quorum.leader
        return _Known(described.cluster_id, controller, nodes, tuple(topics), hidden, quorum)

    def _is_wanted(self, name: TopicName, internal: bool) -> bool:
        return (self._internal or not internal) and (self._filter is None or self._filter.matches(name))

    def _learn(self, known: _Known) -> None:
        self._known = known
        for node in known.nodes.values():
            if self._nodes.get(node.id) != node:
                self._nodes[node.id] = node
                told = self._told[node.id] = _Told()
                self._run(partial(self._watch_broker, node, told))

    # The threads of the brokers

    def _watch_broker(self, node: Node, told: _Told) -> None:
        while not self._stopped.is_set() and self._told.get(node.id) is told:
            with self._connect(str(node)) as cluster:
                while not self._stopped.is_set() and self._told.get(node.id) is told:
                    try:
                        self._ask_broker(cluster, node, told)
                    except (ClientError, OSError):
                        break
                    self._wait_for_tick()
            self._wait_for_tick()

    def _wait_for_tick(self) -> None:
        """All brokers are asked at the same moments, so that what they say can be compared."""
        self._stopped.wait(self._interval_s - time.monotonic() % self._interval_s)

    def _ask_broker(self, cluster: Cluster, node: Node, told: _Told) -> None:
        topics = () if self._known is None else self._known.topics
        held = [
            (TopicPartition(topic.name, one.index), one.leader)
            for topic in topics
            for one in topic.partitions
            if node.id in one.replicas
        ]
        led = _offsets(cluster, node, (place for place, leader in held if leader == node.id), CONSUMER)
        ends = _offsets(cluster, node, (place for place, _ in held), DEBUGGING_REPLICA)
        told.ends, told.high_watermarks, told.at = ends, led, time.monotonic()

    def _connect(self, address: str) -> Cluster:
        return Cluster(
            address,
            client_id=CLIENT_ID,
            request_timeout_s=REQUEST_SECONDS_MAX,
            timeout_s=REQUEST_SECONDS_MAX,
            security=self._security,
        )

    def _run(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()


def _offsets(
    cluster: Cluster, node: Node, places: Iterable[TopicPartition], replica_id: int
) -> dict[TopicPartition, Offset]:
    """The latest offsets that one broker knows of some partitions; without those that it does not hold."""
    wanted = by_topic(dict.fromkeys(places))
    if not wanted:
        return {}
    request = ListOffsetsRequest(
        replica_id,
        0,
        [
            ListOffsetsTopic(name, [ListOffsetsPartition(index, timestamp=LATEST) for index, _ in rows])
            for name, rows in wanted.items()
        ],
    )
    answer = cluster.call(node, request, ListOffsetsResponse, cluster.deadline())
    return {
        TopicPartition(TopicName(topic.name), PartitionIndex(one.partition_index)): Offset(one.offset)
        for topic in answer.topics
        for one in topic.partitions
        if not one.error_code
    }


def _partitions(topics: Iterable[TopicDescription], told: Mapping[NodeId, _Told]) -> Iterable[WatchedPartition]:
    for topic in topics:
        for one in topic.partitions:
            place = TopicPartition(topic.name, one.index)
            leader = told.get(one.leader)
            ends = ((node, told[node].ends.get(place)) for node in one.replicas if node in told)
            yield WatchedPartition(
                place,
                one.leader,
                one.leader_epoch,
                one.replicas,
                one.isr,
                one.eligible_leaders,
                None if leader is None else leader.high_watermarks.get(place),
                {node: end for node, end in ends if end is not None},
            )
