"""What clients of a cluster are told of its replicas: which one is near, who leads instead, what is gone from all."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import tidelog
from harness.logs import batch_of
from harness.raw_client import RawClient
from harness.waiting import wait_until
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

RACKS = ("a", "b", "c")
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RECORDS = 500
VALUE_BYTES = 1000
ALL = -1
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[tidelog.Cluster]:
    with tidelog.Cluster(3, racks=RACKS, config={"replica.selector.class": SELECTOR}) as up:
        yield up


def create(cluster: tidelog.Cluster, topic: str, replicas: int = 3) -> UUID:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, replicas)])[topic].result(SECONDS_MAX)
    cluster.leader(topic)  # Known to one broker, and then to all.
    cluster.wait_until_in_sync()
    with RawClient(cluster.address(1)) as client:
        answer = client.ask(MetadataRequest([MetadataRequestTopic(name=topic)]), MetadataResponse)
    return answer.topics[0].topic_id


def write(cluster: tidelog.Cluster, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for _ in range(records):
        producer.produce(topic, bytes(VALUE_BYTES))
    assert producer.flush(SECONDS_MAX) == 0


def test_librdkafka_reads_from_the_replica_in_its_own_rack(cluster: tidelog.Cluster, topic: str) -> None:
    create(cluster, topic)
    write(cluster, topic, RECORDS)
    leader = cluster.leader(topic)
    near = next(node for node in cluster.nodes if node != leader)
    received: dict[int, int] = {}

    def told(statistics: str) -> None:
        for broker in json.loads(statistics)["brokers"].values():
            received[broker["nodeid"]] = broker["rxbytes"]

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": topic,
            "client.rack": RACKS[near - 1],
            "statistics.interval.ms": 100,
            "stats_cb": told,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    count = 0
    end = time.monotonic() + SECONDS_MAX
    while count < RECORDS and time.monotonic() < end:
        count += len(consumer.consume(RECORDS, 0.5))
    wait_until(lambda: consumer.poll(0.1) is None and received.get(near, 0) > RECORDS * VALUE_BYTES, SECONDS_MAX)
    consumer.close()

    assert count == RECORDS
    assert received[leader] < RECORDS * VALUE_BYTES / 10, "the leader only says where to read"


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_a_producer_at_the_wrong_broker_is_told_who_leads_and_where_that_is(
    cluster: tidelog.Cluster, topic: str, version: int
) -> None:
    topic_id = create(cluster, topic)
    leader = cluster.leader(topic)
    other = next(node for node in cluster.nodes if node != leader)
    rows = [PartitionProduceData(0, batch_of([b"x"])), PartitionProduceData(7, batch_of([b"x"]))]
    request = ProduceRequest(None, ALL, 1000, [TopicProduceData(topic, topic_id, rows)])

    with RawClient(cluster.address(other)) as client:
        answer = client.ask(request, ProduceResponse, version)

    refused, unknown = answer.responses[0].partition_responses
    assert (refused.error_code, unknown.error_code) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
    assert unknown.current_leader.leader_id == -1
    if version < 10:
        assert (refused.current_leader.leader_id, answer.node_endpoints) == (-1, [])
        return
    (endpoint,) = answer.node_endpoints
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (leader, 0)
    assert (endpoint.node_id, f"{endpoint.host}:{endpoint.port}") == (leader, cluster.address(leader))
    assert endpoint.rack == RACKS[leader - 1]


def test_a_reader_at_the_wrong_broker_is_told_who_leads_and_where_that_is(cluster: tidelog.Cluster, topic: str) -> None:
    topic_id = create(cluster, topic, replicas=1)
    leader = cluster.leader(topic)
    other = next(node for node in cluster.nodes if node != leader)
    wanted = FetchTopic(topic, topic_id, [FetchPartition(0, partition_max_bytes=1000)])

    with RawClient(cluster.address(other)) as client:
        answer = client.ask(FetchRequest(topics=[wanted], session_epoch=-1), FetchResponse, 16)

    (data,) = answer.responses[0].partitions
    (endpoint,) = answer.node_endpoints
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (leader, 0)
    assert (endpoint.node_id, f"{endpoint.host}:{endpoint.port}") == (leader, cluster.address(leader))


def test_records_are_deleted_when_no_live_replica_has_them_any_more(cluster: tidelog.Cluster, topic: str) -> None:
    topic_id = create(cluster, topic)
    write(cluster, topic, 10)
    leader = cluster.leader(topic)
    stopped = next(node for node in cluster.nodes if node != leader)

    cluster.pause(stopped)
    try:
        late = delete_before(cluster, topic, 5, timeout_ms=100)
    finally:
        cluster.resume(stopped)
    assert (late.error_code, late.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)

    gone = delete_before(cluster, topic, 5, timeout_ms=30_000)
    assert (gone.error_code, gone.low_watermark) == (0, 5)
    assert {log_start(cluster, node, topic_id) for node in cluster.nodes} == {5}
    beyond = delete_before(cluster, topic, 11, timeout_ms=30_000)
    assert (beyond.error_code, beyond.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def delete_before(cluster: tidelog.Cluster, topic: str, offset: int, timeout_ms: int) -> DeleteRecordsPartitionResult:
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])], timeout_ms)
    with RawClient(cluster.address(cluster.leader(topic)), SECONDS_MAX) as client:
        return client.ask(request, DeleteRecordsResponse).topics[0].partitions[0]


def log_start(cluster: tidelog.Cluster, node: int, topic_id: UUID) -> int:
    wanted = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0, -1, 7, partition_max_bytes=1000)])
    with RawClient(cluster.address(node)) as client:
        answer = client.ask(FetchRequest(topics=[wanted], session_epoch=-1), FetchResponse)
    return answer.responses[0].partitions[0].log_start_offset
