"""A client's way to a cluster on asyncio: a connection for each broker, the view of the metadata, coordinators.

Producer and consumer stand on it; it knows nothing of what topics hold. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from typing import Final, TypeVar

from tidelog.client.aio.connection import Connection, connect
from tidelog.client.core.bootstrap import Address, parse_bootstrap_servers
from tidelog.client.core.coordinators import CoordinatorKind, find_coordinator, found_coordinator
from tidelog.client.core.metadata import NOTHING_KNOWN, ClusterView, Node, Topic, view_after
from tidelog.client.core.options import ClientOptions
from tidelog.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    NoBrokerReachable,
    Rejected,
    check,
)
from tidelog.client.security import security_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.schema import Request, Response

MILLISECONDS: Final = 1000.0

R = TypeVar("R", bound=Response)
T = TypeVar("T")


class Lane(Enum):
    """Connections to the same broker. It answers one request of a connection after the other, so those that it may
    keep waiting have connections of their own."""

    USUAL = auto()
    FETCH = auto()
    GROUP = auto()


class Network:
    """Connections to the brokers of one cluster, and what is known of it."""

    def __init__(self, options: ClientOptions) -> None:
        self.view: ClusterView = NOTHING_KNOWN
        self.request_timeout_s = options.request_timeout_ms / MILLISECONDS
        self.backoff_s = options.retry_backoff_ms / MILLISECONDS
        self._options = options
        self._security = security_of(options)
        self._bootstrap = parse_bootstrap_servers(options.bootstrap_servers)
        self._connections: dict[tuple[Address, Lane], Connection] = {}
        self._opening: dict[tuple[Address, Lane], asyncio.Task[Connection]] = {}
        self._failures: dict[Address, tuple[int, float]] = {}
        self._refreshing: dict[frozenset[TopicName] | None, asyncio.Task[ClusterView]] = {}
        self._closed = False
        self._refreshed_at = 0.0

    @property
    def age_s(self) -> float:
        """How old the view is."""
        return asyncio.get_running_loop().time() - self._refreshed_at

    async def close(self) -> None:
        """Close all connections and end what was being opened."""
        self._closed = True
        tasks = [*self._opening.values(), *self._refreshing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._connections.values():
            connection.close(ClientClosed("The client was closed."))
        self._connections.clear()

    async def connection(self, node: Node, lane: Lane = Lane.USUAL) -> Connection:
        """The connection to a broker, opened when first needed; at most one is being opened at a time."""
        return await self._open((node.host, node.port), lane)

    def existing(self, node: Node) -> Connection | None:
        """The connection to a broker if it is open."""
        connection = self._connections.get(((node.host, node.port), Lane.USUAL))
        return None if connection is None or connection.closed else connection

    async def call(
        self,
        node: Node,
        request: Request,
        response: type[R],
        *,
        at_most: int | None = None,
        timeout_s: float | None = None,
    ) -> R:
        """Ask one broker, once."""
        connection = await self.connection(node)
        return await connection.call(request, response, timeout_s or self.request_timeout_s, at_most)

    async def any_connection(self) -> Connection:
        """A connection that is open, else one to a known broker, else one to a bootstrap server."""
        for (_, lane), connection in self._connections.items():
            if lane is Lane.USUAL and not connection.closed:
                return connection
        known = [(node.host, node.port) for node in self.view.nodes.values()]
        random.shuffle(known)
        failures: list[str] = []
        for address in dict.fromkeys([*known, *self._bootstrap]):
            try:
                return await self._open(address, Lane.USUAL)
            except (AuthenticationFailed, ClientClosed):
                raise
            except ClientError as error:
                failures.append(str(error))
        raise NoBrokerReachable(f"{' '.join(dict.fromkeys(failures))} Is a broker running there?")

    async def call_any(self, request: Request, response: type[R]) -> R:
        """Ask any broker, once."""
        connection = await self.any_connection()
        return await connection.call(request, response, self.request_timeout_s)

    async def refresh(self, topics: Iterable[TopicName] | None, *, create: bool = False) -> ClusterView:
        """Ask for metadata of some topics, or of all. Who asks the same at the same time shares the answer."""
        wanted = None if topics is None else frozenset(topics)
        task = self._refreshing.get(wanted)
        if task is None:
            if self._closed:
                raise ClientClosed("The client is closed.")
            task = asyncio.get_running_loop().create_task(self._refresh(wanted, create))
            self._refreshing[wanted] = task
            task.add_done_callback(lambda _: self._refreshing.pop(wanted, None))
        return await asyncio.shield(task)

    async def topic(self, name: TopicName, *, create: bool = False) -> Topic:
        """A topic that exists, from what is known or by asking once. Rejected if the cluster has an error for it."""
        topic = self.view.topics.get(name)
        if topic is None or topic.error or not topic.partitions:
            topic = (await self.refresh([name], create=create)).topics[name]
        if topic.error:
            message = f"Topic '{name}' does not exist." if topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None
            raise Rejected(topic.error, message)
        return topic

    async def coordinator(self, kind: CoordinatorKind, key: str) -> Node:
        """The broker that keeps a group or a transaction, asked for anew. Once."""
        connection = await self.any_connection()
        request = find_coordinator(kind, key, connection.version_of(FindCoordinatorRequest))
        answer = await connection.call(request, FindCoordinatorResponse, self.request_timeout_s)
        return found_coordinator(answer)

    async def retry(self, attempt: Callable[[], Awaitable[T]], timeout_s: float) -> T:
        """Do something until it works, fails for good, or time is up."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        backoff_s = self.backoff_s
        while True:
            try:
                return await attempt()
            except ClientError as error:
                if not error.retriable or loop.time() + backoff_s >= end:
                    raise
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, self._options.retry_backoff_max_ms / MILLISECONDS)

    async def _refresh(self, wanted: frozenset[TopicName] | None, create: bool) -> ClusterView:
        asked = None if wanted is None else [MetadataRequestTopic(name=name) for name in sorted(wanted)]
        answer = await self.call_any(MetadataRequest(asked, allow_auto_topic_creation=create), MetadataResponse)
        check(answer.error_code)
        self.view = view_after(NOTHING_KNOWN if wanted is None else self.view, answer)
        self._refreshed_at = asyncio.get_running_loop().time()
        return self.view

    async def _open(self, address: Address, lane: Lane) -> Connection:
        connection = self._connections.get((address, lane))
        if connection is not None and not connection.closed:
            return connection
        if self._closed:
            raise ClientClosed("The client is closed.")
        task = self._opening.get((address, lane))
        if task is None:
            self._refuse_soon_again(address)
            task = asyncio.get_running_loop().create_task(self._connect(address, lane))
            self._opening[address, lane] = task
            task.add_done_callback(lambda _: self._opening.pop((address, lane), None))
        return await asyncio.shield(task)

    def _refuse_soon_again(self, address: Address) -> None:
        """A broker that could not be reached is left alone for a moment, each time a little longer."""
        failed, until = self._failures.get(address, (0, 0.0))
        if failed and asyncio.get_running_loop().time() < until:
            raise BrokerUnreachable(f"Cannot connect to {address[0]}:{address[1]}.")

    async def _connect(self, address: Address, lane: Lane) -> Connection:
        timeout_s = self._options.socket_connection_setup_timeout_ms / MILLISECONDS
        try:
            connection = await connect(*address, self._options.client_id, timeout_s, self._security)
        except ClientError:
            failed = self._failures.get(address, (0, 0.0))[0] + 1
            backoff_ms = min(
                self._options.reconnect_backoff_ms * 2 ** min(failed - 1, 16), self._options.reconnect_backoff_max_ms
            )
            until = asyncio.get_running_loop().time() + backoff_ms * random.uniform(0.8, 1.2) / MILLISECONDS
            self._failures[address] = (failed, until)
            raise
        self._failures.pop(address, None)
        self._connections[address, lane] = connection
        return connection
