"""Three real brokers that are one cluster: the quorum forms, its controller dies, brokers die, all of them restart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.raw_client import RawClient
from harness.waiting import wait_until
from tidelog import Cluster
from tidelog.client.cluster import Cluster as Connected
from tidelog.client.quorum import Quorum, describe_quorum
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse

NODES = (1, 2, 3)
SECONDS_TO_A_NEW_CONTROLLER = 2.0
SECONDS_TO_NEW_LEADERS = 3.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(3, data=tmp_path, cuttable=False) as running:
        yield running


def quorum_of(cluster: Cluster) -> Quorum:
    with Connected(cluster.address(cluster.alive[0])) as connected:
        return describe_quorum(connected)


def metadata(cluster: Cluster, node: int) -> MetadataResponse:
    with RawClient(cluster.address(node)) as client:
        return client.ask(MetadataRequest(topics=None), MetadataResponse)


def create(cluster: Cluster, node: int, name: str, partitions: int = 3, replicas: int = 3) -> int:
    """Ask this very broker to create a topic; the error code."""
    with RawClient(cluster.address(node), timeout_seconds=30) as client:
        request = CreateTopicsRequest(topics=[CreatableTopic(name, partitions, replicas)])
        return client.ask(request, CreateTopicsResponse).topics[0].error_code


def wait_until_equal(cluster: Cluster) -> None:
    """Until all that are alive tell the same."""

    def equal() -> bool:
        told = [metadata(cluster, node) for node in cluster.alive]
        return all((one.brokers, one.topics) == (told[0].brokers, told[0].topics) for one in told)

    wait_until(equal)


def leaders(cluster: Cluster, node: int) -> dict[tuple[str | None, int], int]:
    return {
        (topic.name, partition.partition_index): partition.leader_id
        for topic in metadata(cluster, node).topics
        for partition in topic.partitions
    }


@pytest.mark.req("F5", "F6", "F9", "F12", "G4")
def test_three_nodes_form_a_quorum_and_any_of_them_takes_changes(cluster: Cluster) -> None:
    quorum = quorum_of(cluster)
    assert {voter.node_id for voter in quorum.voters} == set(NODES)
    assert quorum.leader in NODES and not quorum.observers

    assert [create(cluster, node, f"made-by-{node}") for node in NODES] == [0, 0, 0]

    wait_until_equal(cluster)
    told = metadata(cluster, 1)
    assert {broker.node_id for broker in told.brokers} == set(NODES)
    assert told.controller_id in NODES
    assert {topic.name for topic in told.topics} == {f"made-by-{node}" for node in NODES}
    assert set(leaders(cluster, 1).values()) == set(NODES)
    ids = set()
    for node in NODES:
        with RawClient(cluster.address(node)) as client:
            ids.add(client.ask(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse).producer_id)
    assert len(ids) == 3


@pytest.mark.req("F8")
def test_the_controller_dies_and_another_one_goes_on_with_all_that_it_knew(cluster: Cluster) -> None:
    assert create(cluster, 1, "before") == 0
    wait_until_equal(cluster)
    old = int(quorum_of(cluster).leader)

    cluster.kill(old)
    killed = time.monotonic()

    survivor = next(node for node in NODES if node != old)
    wait_until(lambda: int(quorum_of(cluster).leader) != old)
    assert time.monotonic() - killed < SECONDS_TO_A_NEW_CONTROLLER
    assert create(cluster, survivor, "after", replicas=2) == 0
    wait_until(lambda: old not in leaders(cluster, survivor).values() and -1 not in leaders(cluster, survivor).values())
    assert time.monotonic() - killed < SECONDS_TO_NEW_LEADERS
    assert {broker.node_id for broker in metadata(cluster, survivor).brokers} == set(NODES) - {old}

    cluster.restart(old)
    wait_until_equal(cluster)
    assert create(cluster, old, "whole-again") == 0


@pytest.mark.req("G1")
def test_a_broker_that_dies_is_fenced_and_others_lead_at_once(cluster: Cluster) -> None:
    assert create(cluster, 1, "led", partitions=9) == 0
    wait_until_equal(cluster)
    controller = int(quorum_of(cluster).leader)
    victim = next(node for node in NODES if node != controller)

    cluster.kill(victim)
    killed = time.monotonic()

    wait_until(lambda: victim not in leaders(cluster, controller).values())
    assert time.monotonic() - killed < SECONDS_TO_NEW_LEADERS
    assert -1 not in leaders(cluster, controller).values()


def test_all_nodes_restart_and_know_what_they_knew(cluster: Cluster) -> None:
    assert create(cluster, 2, "kept") == 0
    wait_until_equal(cluster)
    before = metadata(cluster, 1)

    for node in NODES:
        cluster.kill(node)
    for node in NODES:
        cluster._brokers[node].start()
    cluster.wait_until_ready()

    wait_until_equal(cluster)
    after = metadata(cluster, 1)
    assert [topic.topic_id for topic in after.topics] == [topic.topic_id for topic in before.topics]
    wait_until(lambda: -1 not in leaders(cluster, 1).values())
    assert after.cluster_id == before.cluster_id


def checkpoints(cluster: Cluster, node: int) -> list[str]:
    folder = cluster.data / f"broker-{node}" / "__cluster_metadata-0"
    return sorted(path.name for path in folder.glob("*.checkpoint"))


def test_a_node_that_was_away_for_longer_than_the_log_goes_back_fetches_a_snapshot(tmp_path: Path) -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": 4000}
    with Cluster(3, data=tmp_path, cuttable=False, config=settings) as cluster:
        assert create(cluster, 1, "first") == 0
        wait_until_equal(cluster)
        absent = next(node for node in NODES if node != int(quorum_of(cluster).leader))
        cluster.kill(absent)
        present = cluster.alive
        for number in range(20):
            assert create(cluster, present[number % 2], f"topic-{number}", partitions=10, replicas=2) == 0
        wait_until(lambda: all(len(checkpoints(cluster, node)) == 2 for node in present))
        known = checkpoints(cluster, absent)

        cluster.restart(absent)

        wait_until_equal(cluster)
        assert len(metadata(cluster, absent).topics) == 21
        assert checkpoints(cluster, absent) != known


def epochs(cluster: Cluster, node: int) -> dict[tuple[str | None, int], tuple[int, int]]:
    return {
        (topic.name, partition.partition_index): (partition.leader_id, partition.leader_epoch)
        for topic in metadata(cluster, node).topics
        for partition in topic.partitions
    }


def test_connections_that_break_fence_nobody_and_a_paused_controller_is_replaced(tmp_path: Path) -> None:
    with Cluster(3, data=tmp_path) as cluster:
        assert create(cluster, 1, "steady", partitions=9) == 0
        wait_until_equal(cluster)
        before, controller = epochs(cluster, 1), int(quorum_of(cluster).leader)
        for _ in range(5):
            for one, other in ((1, 2), (2, 3), (3, 1)):
                cluster.reset(one, other)
            time.sleep(0.2)
        time.sleep(0.5)
        assert epochs(cluster, 1) == before, "nobody was taken for dead"
        assert int(quorum_of(cluster).leader) == controller

        cluster.pause(controller)
        paused = time.monotonic()
        wait_until(lambda: int(quorum_of(cluster).leader) != controller)
        assert time.monotonic() - paused < 10
        cluster.resume(controller)

        wait_until_equal(cluster)
        wait_until(lambda: len(metadata(cluster, controller).brokers) == 3)
        # It may not have heard yet that it leads no more; then clients are told to ask again.
        wait_until(
            lambda: create(cluster, controller, "afterwards") in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        )


def test_a_rolling_restart_hands_over_before_each_stop(cluster: Cluster) -> None:
    assert create(cluster, 1, "moving", partitions=9) == 0
    wait_until_equal(cluster)
    for node in NODES:
        other = next(one for one in NODES if one != node)
        began = time.monotonic()
        cluster.stop_broker(node)
        stopped = time.monotonic()
        assert node not in leaders(cluster, other).values() and -1 not in leaders(cluster, other).values()
        assert create(cluster, other, f"while-{node}-is-away", partitions=1, replicas=2) == 0
        assert time.monotonic() - stopped < 2, "the controller was handed over, too"
        assert stopped - began < 5
        cluster.restart(node)
        cluster.wait_until_in_sync()


def test_a_thousand_partitions_are_made_without_disturbing_the_quorum(cluster: Cluster) -> None:
    before = quorum_of(cluster)
    began = time.monotonic()
    assert create(cluster, 1, "wide", partitions=1000) == 0
    wait_until_equal(cluster)
    cluster.wait_until_in_sync()
    assert time.monotonic() - began < 15
    assert (quorum_of(cluster).leader, quorum_of(cluster).epoch) == (before.leader, before.epoch)
