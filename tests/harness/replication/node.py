"""One broker of the simulation: real logs on a simulated disk, the real roles, fetchers, fetch and produce handlers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from harness.replication.stage import Alarm
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.handlers.fetch import FetchHandler
from tidelog.broker.handlers.produce import ProduceHandler
from tidelog.broker.partition_logs import PartitionLogs, log_config
from tidelog.broker.turn import Turn
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.directories import LogDirectories
from tidelog.log.errors import CorruptLog, LogWriteFailed
from tidelog.log.file_slice import FileSlice
from tidelog.log.producer_replay import KnownProducers
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.publisher import Publisher
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset, TopicPartition
from tidelog.model.topic_settings import TopicConfig
from tidelog.replica.disk import Replica
from tidelog.replica.fetcher import Asked, Fetcher, FetcherSettings
from tidelog.replica.follower import PartitionFollower
from tidelog.replica.isr_proposals import IsrProposals
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.frames import RequestHeader
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from harness.replication.world import World

FETCH_VERSION: Final = 18
PRODUCE_VERSION: Final = 13
LAG_MS_MAX: Final = 400
IN_FLIGHT_MAX: Final = 2
EXPIRATION_MS: Final = 86_400_000
SETTINGS: Final = FetcherSettings(wait_ms_max=60, backoff_ms_max=80)
CUTS_PER_SECOND: Final = 20.0

Known = dict[TopicPartition, KnownProducers]


class SimulatedConnection:
    listener_name = "PLAINTEXT"


class SimulatedCall:
    """A request with a way back."""

    connection = SimulatedConnection()

    def __init__(self, version: int, answer: Callable[[Any], None]) -> None:
        self.header = RequestHeader(1, version, 0, "simulated", 0)
        self.answer = answer

    def answer_nothing(self) -> None: ...
    def abort(self, reason: str) -> None: ...


class NoTransactions:
    def hold(self, request: ProduceRequest, version: int, resume: Callable[[ProduceRequest], None]) -> bool:
        return False


class Node:
    """A broker from its start to its crash: what outlives it is the disk."""

    def __init__(self, world: World, node_id: NodeId, files: SimulatedFiles, incarnation: UUID) -> None:
        self.world = world
        self.node_id = node_id
        self.incarnation = incarnation
        self.files = files
        self.alive = True
        self.broker_epoch = -1
        self.serves = False
        self.publisher = Publisher()
        # How many batches of the metadata log it has seen.
        self.seen = 0
        self._syncing: set[Replica] = set()
        self.directories = LogDirectories(["/data"], files, world.stage.clock)
        self.directories.load(lambda _: log_config(world.config, EXPIRATION_MS))
        self.turn = Turn(self.soon, 1 << 30, lambda: 0)
        self.partitions = LedPartitions(
            node_id,
            PartitionLogs(self.directories, EXPIRATION_MS, lambda _: False),
            self._topic_config,
            self.turn.write,
            self,
            self.now_ms,
            LAG_MS_MAX,
        )
        self.fetchers = NodeFetchers(self)
        self.proposals = IsrProposals(
            node_id,
            lambda: self.broker_epoch,
            self.partitions.eligible_epoch,
            self.now_ms,
            self._send_proposals,
        )
        self.partitions.replicate_with(self.fetchers, self.proposals)
        sessions = FetchSessions(100, 120.0, world.stage.clock.monotonic, lambda: world.stage.chance.randint(1, 2**30))
        self.fetch = FetchHandler(self.partitions, sessions, self, 1 << 20)
        self.produce = ProduceHandler(self.partitions, self.turn, self, self.now_ms, NoTransactions())

    def metadata_arrived(self) -> None:
        """What the cluster was before this incarnation registered is not acted on: its roles then are not its own."""
        if not self.serves and self.publisher.image.offset >= self.broker_epoch >= 0:
            self.serves = True
            self.publisher.subscribe(self.partitions.apply)

    def start(self) -> None:
        self._every(LAG_MS_MAX // 2, lambda: self.proposals.look_at_all(self.partitions))
        self._every(500, self._checkpoint)

    # Time: what a dead process wanted to do does not happen.

    def now_ms(self) -> int:
        return self.world.stage.now_ms

    def soon(self, act: Callable[[], object]) -> Alarm:
        return self.call_later(0, act)

    def call_later(self, delay: float, act: Callable[[], object]) -> Alarm:
        return self.world.stage.after(delay * 1000, lambda: self.do(act))

    def do(self, act: Callable[[], object]) -> None:
        if self.alive:
            act()
            self.world.referee.look_at(self)

    def _every(self, period_ms: int, act: Callable[[], object]) -> None:
        def again() -> None:
            act()
            self._every(period_ms, act)

        self.call_later(period_ms / 1000, again)

    def _topic_config(self, image: ClusterImage, topic: str) -> TopicConfig:
        return self.world.config

    # The disk

    def sync_due(self, replica: Replica) -> None:
        if replica not in self._syncing:
            self._syncing.add(replica)
            chance = self.world.stage.chance
            delay_ms = chance.randint(0, 4) if chance.random() < 0.8 else chance.randint(10, 120)
            self.call_later(delay_ms / 1000, lambda: self._sync(replica))

    def sync_later(self, replica: Replica, delay_ms: int) -> None: ...

    def _sync(self, replica: Replica) -> None:
        self._syncing.discard(replica)
        replica.log.flush()
        replica.synced()

    def write_failed(self, replica: Replica, failure: LogWriteFailed) -> None:
        raise AssertionError(f"no disk fails here: {failure}")

    def _checkpoint(self) -> None:
        self.directories.high_watermarks.update(
            {replica.log.partition: replica.high_watermark for replica in self.partitions.replicas()}
        )
        self.directories.checkpoint()

    # Requests of others

    def on_fetch(self, request: FetchRequest, answer: Callable[[FetchResponse], None]) -> None:
        def in_memory(response: FetchResponse) -> None:
            for topic in response.responses:
                for data in topic.partitions:
                    if isinstance(data.records, FileSlice):
                        data.records = self.world.on_the_way(data.records.read())
            answer(response)

        self.turn.begin()
        self.turn.write_now()
        response = self.fetch(SimulatedCall(FETCH_VERSION, in_memory), request)  # type: ignore[arg-type]
        if response is not None:
            in_memory(response)

    def on_produce(self, request: ProduceRequest, answer: Callable[[ProduceResponse], None]) -> None:
        self.turn.begin()
        self.produce(SimulatedCall(PRODUCE_VERSION, answer), request)  # type: ignore[arg-type]

    # The controller

    def _send_proposals(self) -> None:
        request = self.proposals.request()
        if request is not None:
            self.world.ask_controller(self, request, self._proposals_answered)

    def _proposals_answered(self, response: Any) -> None:
        done = False
        if response is None:
            self.proposals.failed()
        else:
            done = self.proposals.answered(response)
        if not done:
            self.call_later(0.03, self._send_proposals)

    # For the referee

    def leader(self) -> PartitionLeader | None:
        for leader in self.partitions:
            return leader
        return None


class NodeCutting:
    """Prepares cuts a little later, as a thread would; meanwhile anything may happen."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def prepare(self, offsets: Mapping[TopicPartition, Offset], then: Callable[[Known, int], None]) -> None:
        node = self._node
        tasks = node.directories.cut_tasks(offsets)

        def run() -> None:
            known: Known = {}
            for partition, task in tasks.items():
                with contextlib.suppress(OSError, CorruptLog):
                    known[partition] = task.run()
            then(known, node.now_ms())

        node.call_later(node.world.stage.chance.expovariate(CUTS_PER_SECOND), run)

    def truncate(
        self, offsets: Mapping[TopicPartition, Offset], known: Mapping[TopicPartition, KnownProducers]
    ) -> None:
        self._node.directories.truncate(offsets, known)

    def start_over(self, partition: TopicPartition, offset: Offset) -> None:
        self._node.directories.start_over(partition, offset)


class NodeFetchers:
    """The fetchers of one node over the simulated network."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._fetchers: dict[NodeId, Fetcher] = {}
        self._in_flight: dict[NodeId, int] = {}
        self._source: dict[PartitionFollower, NodeId] = {}

    def follow(self, follower: PartitionFollower) -> None:
        self.stop(follower)
        node = self._node
        source = follower.leader
        fetcher = self._fetchers.get(source)
        if fetcher is None:
            fetcher = self._fetchers[source] = Fetcher(
                node.node_id,
                lambda: node.broker_epoch,
                SETTINGS,
                NodeCutting(node),
                self._refused,
                lambda: self._fetch(source),
            )
        fetcher.add(follower)
        self._source[follower] = source
        node.soon(lambda: self._fetch(source))

    def stop(self, follower: PartitionFollower) -> None:
        source = self._source.pop(follower, None)
        if source is not None:
            self._fetchers[source].remove(follower)

    def synced(self, follower: PartitionFollower) -> None:
        source = self._source.get(follower)
        if source is not None:
            self._fetchers[source].resume(follower)
            self._fetch(source)

    def _refused(self, follower: PartitionFollower, code: ErrorCode, reason: str) -> None:
        assert code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.KAFKA_STORAGE_ERROR), code

    def _fetch(self, source: NodeId) -> None:
        fetcher, node = self._fetchers[source], self._node
        now_ms = node.now_ms()
        in_flight = self._in_flight.get(source, 0)
        if in_flight >= IN_FLIGHT_MAX or (in_flight and not fetcher.has_news(now_ms)):
            return
        asked = fetcher.request(now_ms)
        due_ms = fetcher.next_due_ms()
        if due_ms is not None:
            node.call_later((due_ms - now_ms) / 1000, lambda: self._fetch(source))
        if asked is None:
            return
        self._in_flight[source] = in_flight + 1
        node.world.ask_node(node, source, asked.request, lambda answer: self._answered(source, asked, answer))

    def _answered(self, source: NodeId, asked: Asked, response: FetchResponse | None) -> None:
        fetcher = self._fetchers[source]
        self._in_flight[source] -= 1
        if response is None:
            fetcher.failed(asked)
        else:
            fetcher.answered(asked, response, self._node.now_ms())
        self._node.call_later(0.02 if response is None else 0, lambda: self._fetch(source))
