"""A client's way to a cluster: bootstrap servers, a view of the metadata, a connection per broker, routing, retries.

Admin, producer and consumer stand on it; it knows nothing of topics' contents. Not for two threads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from tidelog.client.connection import Connection
from tidelog.client.core.bootstrap import Address, parse_bootstrap_servers
from tidelog.client.core.metadata import NOTHING_KNOWN, ClusterView, Node, Topic, view_after
from tidelog.client.deadline import Deadline
from tidelog.client.errors import (
    BrokerUnreachable,
    ClientError,
    NoBrokerReachable,
    Rejected,
    RequestExpired,
    check,
)
from tidelog.client.security import NO_SECURITY, Security
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, TopicName, TopicPartition
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.schema import Request, Response

REQUEST_TIMEOUT_S: Final = 30.0
TIMEOUT_S: Final = 60.0
METADATA_AGE_MAX_S: Final = 300.0
DEFAULT_CLIENT_ID: Final = "tidelog"

R = TypeVar("R", bound=Response)
T = TypeVar("T")


class Cluster:
    """Everything below an admin client, a producer or a consumer."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = DEFAULT_CLIENT_ID,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        timeout_s: float = TIMEOUT_S,
        bootstrap_patience_s: float = 0.0,
        security: Security = NO_SECURITY,
    ) -> None:
        """`bootstrap_patience_s`: how long to go on trying when no bootstrap server accepts a connection."""
        self._bootstrap = parse_bootstrap_servers(bootstrap_servers)
        self._client_id = client_id
        self._security = security
        self._request_timeout_s = request_timeout_s
        self._bootstrap_patience_s = bootstrap_patience_s
        self._view = NOTHING_KNOWN
        self._forget_at: Deadline | None = None
        self._was_reached = False
        self._connections: dict[Address, Connection] = {}
        self.timeout_s = timeout_s

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def view(self) -> ClusterView:
        """What is known now."""
        return self._view

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        return Deadline(self.timeout_s if timeout_s is None else timeout_s)

    def retry(
        self, operation: Callable[[Deadline], T], deadline: Deadline | None = None, *, await_topic: bool = False
    ) -> T:
        """Do something until it works, fails for good, or time is up. Before each new try the metadata is forgotten.

        `await_topic`: whether a topic that does not exist may be about to, so that it is worth to wait for it.
        A cluster that never answered is not waited for; one that did comes back.
        """
        deadline = deadline or self.deadline()
        while True:
            try:
                return operation(deadline)
            except ClientError as error:
                hopeless = not await_topic if _is_unknown_topic(error) else not self._was_reached
                if not error.retriable or hopeless or not deadline.pause():
                    raise
                self.forget()

    def forget(self, topics: Iterable[TopicName] | None = None) -> None:
        """Ask anew before the next use, for all topics or some."""
        if topics is None:
            self._view, self._forget_at = NOTHING_KNOWN, None
        else:
            self._view = self._view.without(topics)

    def connection(self, node: Node, deadline: Deadline) -> Connection:
        """The connection to a broker, opened when first needed."""
        return self._open((node.host, node.port), deadline)

    def call(self, node: Node, request: Request, response: type[R], deadline: Deadline) -> R:
        """Ask one broker, once."""
        within = deadline.within(self._request_timeout_s)
        return self.connection(node, within).call(request, response, within)

    def call_any(self, request: Request, response: type[R], deadline: Deadline) -> R:
        """Ask any broker, once."""
        within = deadline.within(self._request_timeout_s)
        return self.any_connection(within).call(request, response, within)

    def call_controller(self, request: Request, response: type[R], deadline: Deadline) -> R:
        """Ask the broker that the metadata names as controller, once; any broker forwards when it names none."""
        view = self._view if self._view.nodes else self.refresh([], deadline)
        node = view.nodes.get(view.controller)
        if node is None:
            return self.call_any(request, response, deadline)
        return self.call(node, request, response, deadline)

    def refresh(self, topics: Iterable[TopicName] | None, deadline: Deadline, *, create: bool = False) -> ClusterView:
        """Ask for metadata of some topics, or of all. Topics that the answer does not have stay as they were."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer = self.call_any(MetadataRequest(asked, allow_auto_topic_creation=create), MetadataResponse, deadline)
        check(answer.error_code)
        self._view = view_after(self._view, answer)
        if topics is None or self._forget_at is None:
            self._forget_at = Deadline(METADATA_AGE_MAX_S)
        return self._view

    def topic(self, name: TopicName, deadline: Deadline, *, create: bool = False) -> Topic:
        """A topic that exists, from what is known or by asking. Rejected if the cluster has an error for it."""
        if self._forget_at is not None and self._forget_at.remaining_s() <= 0:
            # Partitions may have been added since, which nothing but a new look would show.
            self.forget()
        topic = self._view.topics.get(name)
        if topic is None or topic.error:
            topic = self.refresh([name], deadline, create=create).topics[name]
        if topic.error:
            self.forget([name])
            message = f"Topic '{name}' does not exist." if topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None
            raise Rejected(topic.error, message)
        return topic

    def leader(self, topic_partition: TopicPartition, deadline: Deadline) -> Node:
        """The leader of a partition, from what is known or by asking."""
        topic = self.topic(topic_partition.topic, deadline)
        if topic_partition.partition >= len(topic.partitions):
            # What is known may be old: topics grow.
            self.forget([topic_partition.topic])
            topic = self.topic(topic_partition.topic, deadline)
        count = len(topic.partitions)
        if topic_partition.partition >= count:
            message = f"Topic '{topic.name}' has {count} partitions, but no partition {topic_partition.partition}."
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        leader = self._view.leader(topic_partition)
        if leader is None:
            self.forget([topic_partition.topic])
            raise Rejected(ErrorCode.LEADER_NOT_AVAILABLE, f"Partition {topic_partition} has no leader at the moment.")
        return leader

    def node(self, node_id: NodeId, deadline: Deadline) -> Node:
        """A broker by its id."""
        view = self._view if node_id in self._view.nodes else self.refresh([], deadline)
        if node_id not in view.nodes:
            raise Rejected(ErrorCode.BROKER_NOT_AVAILABLE, f"There is no broker with id {node_id}.")
        return view.nodes[node_id]

    def any_connection(self, deadline: Deadline) -> Connection:
        """A connection that is open, else one to a known broker, else one to a bootstrap server."""
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        patience = deadline.within(self._bootstrap_patience_s)
        while True:
            failures: list[ClientError] = []
            known = [(node.host, node.port) for node in self._view.nodes.values()]
            for address in dict.fromkeys([*known, *self._bootstrap]):
                try:
                    return self._open(address, deadline)
                except (BrokerUnreachable, RequestExpired) as error:
                    failures.append(error)
            if not patience.pause():
                raise NoBrokerReachable(_no_broker(failures))

    def _open(self, address: Address, deadline: Deadline) -> Connection:
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = Connection(*address, self._client_id, deadline, self._security)
            self._connections[address] = connection
            self._was_reached = True
        return connection


def _is_unknown_topic(error: ClientError) -> bool:
    return isinstance(error, Rejected) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _no_broker(failures: list[ClientError]) -> str:
    sentences = " ".join(dict.fromkeys(str(failure) for failure in failures))
    return f"{sentences} Is a broker running there?"
