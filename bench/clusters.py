"""The two clusters of three: ours and Apache Kafka, each node broker and controller, with the same settings."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from bench.process import cpu_time, rss_bytes
from bench.servers import APACHE_KAFKA_HEAP, APACHE_KAFKA_JVM_OPTIONS, OURS
from bench.topics import ADMIN_SECONDS_MAX, LATEST, LIST_OFFSETS_VERSION
from harness.apache_cluster import apache_kafka_cluster
from harness.raw_client import RawClient
from harness.server import HOST, ServerProcess
from harness.tidelog_cluster import tidelog_cluster_servers
from tidelog.client.cluster import Cluster as Connected
from tidelog.client.quorum import describe_quorum
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

BROKERS: Final = 3
READY_SECONDS_MAX: Final = 90.0
POLL_SECONDS: Final = 0.05
METADATA_VERSION: Final = 12


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """Three brokers that know each other."""

    servers: list[ServerProcess]
    folder: Path

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(server.bootstrap_servers for server in self.servers)

    @property
    def cpu_seconds(self) -> float:
        """Of all brokers together."""
        return sum(cpu_time(server.pid).total for server in self.servers if server.is_alive())

    @property
    def rss_bytes(self) -> int:
        return sum(rss_bytes(server.pid) for server in self.servers if server.is_alive())

    def leader(self, topic: str) -> ServerProcess:
        """The broker that leads the first partition of a topic."""
        found = self.leader_or_none(topic)
        assert found is not None, f"{topic} has no leader"
        return found

    def leader_or_none(self, topic: str, partition: int = 0) -> ServerProcess | None:
        answer = self._metadata(topic)
        (leader,) = (one.leader_id for one in answer.topics[0].partitions if one.partition_index == partition)
        return self._server(answer, leader)

    def controller(self) -> ServerProcess:
        """The broker that leads the metadata quorum."""
        with Connected(self.bootstrap_servers) as connected:
            found = self._server(self._metadata(None), describe_quorum(connected).leader)
        assert found is not None, "there is no controller"
        return found

    def _server(self, answer: MetadataResponse, node: int) -> ServerProcess | None:
        ports = {broker.node_id: broker.port for broker in answer.brokers}
        return next((server for server in self.servers if server.port == ports.get(node)), None)

    def topic_id(self, topic: str) -> UUID:
        return self._metadata(topic).topics[0].topic_id

    def wait_until_whole(self, topic: str | None = None) -> None:
        """Until all brokers are there and, of a topic, all partitions have a leader and all replicas in sync."""
        end = time.monotonic() + READY_SECONDS_MAX
        while not self._is_whole(topic):
            if time.monotonic() > end:
                raise TimeoutError("the cluster did not become whole")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End it and forget its data."""
        for server in self.servers:
            server.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_whole(self, topic: str | None) -> bool:
        answer = self._metadata(topic)
        return len(answer.brokers) == len(self.servers) and all(
            not one.error_code
            and all(len(row.isr_nodes) == BROKERS and row.leader_id >= 0 for row in one.partitions)
            and self._is_served(answer, one)
            for one in answer.topics
        )

    def _is_served(self, answer: MetadataResponse, topic: MetadataResponseTopic) -> bool:
        """Whether every leader answers for what it leads: the metadata is there before the logs are."""
        for broker in answer.brokers:
            led = [one.partition_index for one in topic.partitions if one.leader_id == broker.node_id]
            rows = [ListOffsetsPartition(index, -1, LATEST) for index in led]
            with RawClient(f"{HOST}:{broker.port}", ADMIN_SECONDS_MAX) as client:
                request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic.name or "", rows)])
                told = client.ask(request, ListOffsetsResponse, LIST_OFFSETS_VERSION).topics if led else []
            if any(row.error_code for one in told for row in one.partitions):
                return False
        return True

    def _metadata(self, topic: str | None) -> MetadataResponse:
        alive = next(server for server in self.servers if server.is_alive())
        topics = [] if topic is None else [MetadataRequestTopic(name=topic)]
        with RawClient(f"{HOST}:{alive.port}", ADMIN_SECONDS_MAX) as client:
            return client.ask(
                MetadataRequest(topics, allow_auto_topic_creation=False), MetadataResponse, METADATA_VERSION
            )


def start_cluster(name: str, folder: Path, settings: Mapping[str, str] | None = None) -> RunningCluster:
    """Start one on an empty folder; returns when its brokers know each other."""
    shutil.rmtree(folder, ignore_errors=True)
    if name == OURS:
        servers = tidelog_cluster_servers(folder, BROKERS, settings)
    else:
        servers = apache_kafka_cluster(
            folder, BROKERS, settings, heap=APACHE_KAFKA_HEAP, jvm_options=APACHE_KAFKA_JVM_OPTIONS
        )
    cluster = RunningCluster(servers, folder)
    try:
        with ThreadPoolExecutor(BROKERS) as pool:
            list(pool.map(ServerProcess.start, servers))
        cluster.wait_until_whole()
    except BaseException:
        cluster.stop()
        raise
    return cluster
