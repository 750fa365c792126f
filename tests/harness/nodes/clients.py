"""Clients of a simulated cluster: they create topics, write with acks=all and read, and keep what they were told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from harness.nodes.network import SimulatedDialer
from harness.nodes.world import Process
from tidelog.broker.peers import Peer, PeerFailed, Peers
from tidelog.metadata.image import ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex
from tidelog.model.listeners import Address
from tidelog.wire.batch import iter_headers
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.records import Record, build_batch, read_records

if TYPE_CHECKING:
    from harness.nodes.cluster import NodeCluster

CLIENTS = "clients"
ACKS_ALL = -1
SERVED_SECONDS_MAX = 10.0
ASK_AGAIN_SECONDS = 0.1
PARTITIONS = 2
Spot = tuple[UUID, int, int]  # Topic, partition, offset.


class Clients:
    def __init__(self, cluster: NodeCluster) -> None:
        self._cluster = cluster
        self._random = cluster.world.random
        process = Process(cluster.world, 0)
        self._peers = Peers(CLIENTS, SimulatedDialer(cluster.network, CLIENTS, process), process)
        self._names = 0
        self._values = 0
        self._lives = 0
        self._purpose = "at-work"
        # What was acknowledged: topics with their ids, and records.
        self.topics: dict[str, UUID] = {}
        self.written: dict[Spot, bytes] = {}
        # What a reader has seen.
        self.seen: dict[Spot, bytes] = {}

    def _to(self, node_id: int) -> Peer:
        machine = self._cluster.machines[node_id]
        # Several connections: an answer that is waited for holds up those behind it.
        self._lives += 1
        return self._peers.to(Address(machine.place, machine.client_port), f"{self._purpose}-{self._lives % 4}")

    def _image(self) -> ClusterImage | None:
        """What some node knows: often old, as clients' metadata is."""
        up = [machine for machine in self._cluster.up if machine.node is not None]
        if not up:
            return None
        node: Any = self._random.choice(up).node
        image: ClusterImage = node._publisher.image
        return image

    # --- what they do -------------------------------------------------------------------------------------------------

    def create_topic(self) -> None:
        self._names += 1
        name = f"topic-{self._names}"
        node_id = self._random.choice(list(self._cluster.machines))

        def answered(response: CreateTopicsResponse | PeerFailed) -> None:
            if not isinstance(response, PeerFailed) and response.topics[0].error_code == ErrorCode.NONE:
                self.topics[name] = response.topics[0].topic_id

        request = CreateTopicsRequest(topics=[CreatableTopic(name, PARTITIONS, -1)], timeout_ms=5000)
        self._to(node_id).send(request, answered, timeout_ms=8000)

    def _partition(self) -> tuple[UUID, int, int] | None:
        """A topic, a partition and who leads it."""
        image = self._image()
        if image is None or not image.topics_by_id:
            return None
        topic = self._random.choice(list(image.topics_by_id.values()))
        index, partition = self._random.choice(list(topic.partitions.items()))
        return None if partition.leader < 0 else (topic.topic_id, index, partition.leader)

    def write(self) -> None:
        found = self._partition()
        if found is not None:
            self._write(*found)

    def _write(self, topic_id: UUID, index: int, leader: int, refused: Callable[[], object] = lambda: None) -> None:
        self._values += 1
        value = f"value-{self._values}".encode()
        batch = build_batch([Record(0, 1_700_000_000_000, None, value)])
        data = TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(index, batch)])

        def answered(response: ProduceResponse | PeerFailed) -> None:
            if isinstance(response, PeerFailed):
                refused()
                return
            answer = response.responses[0].partition_responses[0]
            if answer.error_code == ErrorCode.NONE:
                self._note(self.written, (topic_id, index, answer.base_offset), value)
            else:
                refused()

        self._to(leader).send(ProduceRequest(None, ACKS_ALL, 3000, [data]), answered, timeout_ms=8000)

    def read(self) -> None:
        found = self._partition()
        if found is not None:
            self._read(*found, self.seen)

    def _read(self, topic_id: UUID, index: int, leader: int, into: dict[Spot, bytes], offset: int = 0) -> None:
        partition = FetchPartition(index, -1, offset, partition_max_bytes=1 << 20)
        request = FetchRequest(topics=[FetchTopic(topic_id=topic_id, partitions=[partition])])

        def answered(response: FetchResponse | PeerFailed) -> None:
            if isinstance(response, PeerFailed) or not response.responses:
                return
            data = response.responses[0].partitions[0]
            if data.error_code != ErrorCode.NONE or not data.records:
                return
            batches = memoryview(bytes(data.records))  # type: ignore[arg-type]
            for position, header in iter_headers(batches):
                for record in read_records(batches, position):
                    if record.offset < data.high_watermark and not header.is_control:
                        self._note(into, (topic_id, index, record.offset), record.value or b"")

        self._to(leader).send(request, answered, timeout_ms=8000)

    def _note(self, kept: dict[Spot, bytes], spot: Spot, value: bytes) -> None:
        for known in (self.written, self.seen):
            if known.get(spot, value) != value:
                self._cluster.referee.fail(f"{spot} was {known[spot]!r} before, and is {value!r} now")
        kept[spot] = value

    # --- what must be true in the end ---------------------------------------------------------------------------------

    def check_everything(self) -> None:
        """When all is mended: every promise is kept."""
        cluster = self._cluster
        self._purpose = "in-the-end"
        node: Any = cluster.machines[1].node
        image: ClusterImage = node._publisher.image
        for name, topic_id in self.topics.items():
            topic = image.topic(name)
            if topic is None or topic.topic_id != topic_id:
                cluster.referee.fail(f"{name} was created, and is not there")
        found: dict[Spot, bytes] = {}
        for topic in image.topics_by_id.values():
            for index, partition in topic.partitions.items():
                if partition.leader < 0:
                    cluster.referee.fail(f"nobody leads {topic.name}-{index}, although all are back")
                self._read(topic.topic_id, index, partition.leader, found)
        cluster.run(2.0)
        for promised in (self.written, self.seen):
            for spot, value in promised.items():
                if found.get(spot) != value:
                    cluster.referee.fail(f"{spot} held {value!r} and holds {found.get(spot)!r} now")

    def check_that_all_is_served(self) -> None:
        """When all are back every partition takes a record with acks=all, and soon, and gives it to readers."""
        cluster = self._cluster
        self._purpose = "afterwards"
        node: Any = cluster.machines[1].node
        image: ClusterImage = node._publisher.image
        partitions = [(topic.topic_id, index) for topic in image.topics_by_id.values() for index in topic.partitions]
        self.written, before = {}, self.written
        for partition in partitions:
            self._write_until_taken(*partition)
        self._wait(lambda: {spot[:2] for spot in self.written} >= set(partitions), "took no record")
        found: dict[Spot, bytes] = {}

        def read() -> bool:
            for topic_id, index, offset in self.written.keys() - found.keys():
                self._read(topic_id, index, self._leader(topic_id, index), found, offset)
            return self.written.keys() <= found.keys()

        self._wait(read, "gave no record")
        self.written = {**before, **self.written}

    def _leader(self, topic_id: UUID, index: int) -> int:
        node: Any = self._cluster.machines[1].node
        image: ClusterImage = node._publisher.image
        return image.topics_by_id[topic_id].partitions[PartitionIndex(index)].leader

    def _write_until_taken(self, topic_id: UUID, index: int) -> None:
        def again() -> None:
            self._cluster.world.after(ASK_AGAIN_SECONDS, lambda: self._write_until_taken(topic_id, index))

        leader = self._leader(topic_id, index)
        if leader < 0:
            again()
        else:
            self._write(topic_id, index, leader, again)

    def _wait(self, is_done: Callable[[], bool], problem: str) -> None:
        end = self._cluster.world.now + SERVED_SECONDS_MAX
        while not is_done():
            if self._cluster.world.now > end:
                self._cluster.referee.fail(f"some partition {problem} within {SERVED_SECONDS_MAX:.0f} s")
            self._cluster.run(ASK_AGAIN_SECONDS)
