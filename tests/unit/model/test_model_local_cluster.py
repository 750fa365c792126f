"""Settings of several brokers on one machine: they find each other, and what is acknowledged is on two of them."""

from __future__ import annotations

import pytest

from tidelog.model.broker_settings import BrokerConfig
from tidelog.model.local_cluster import NodePorts, local_cluster, show_properties
from tidelog.model.properties import read_properties


def test_three_brokers_are_three_voters_with_three_replicas_of_which_two_must_be_in_sync() -> None:
    ports = [NodePorts(9092 + index, 9095 + index) for index in range(3)]

    settings = local_cluster(ports, data=["/a", "/b", "/c"], config={"num.partitions": "4"})

    configs = [BrokerConfig.from_properties(properties) for properties in settings]
    assert [config.node_id for config in configs] == [1, 2, 3]
    assert all(
        [(voter.node_id, voter.port) for voter in config.controller_quorum_voters] == [(1, 9095), (2, 9096), (3, 9097)]
        for config in configs
    )
    assert {config.default_replication_factor for config in configs} == {3}
    assert {properties["min.insync.replicas"] for properties in settings} == {"2"}
    assert {config.num_partitions for config in configs} == {4}
    assert [properties["log.dirs"] for properties in settings] == ["/a", "/b", "/c"]


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (5, "3", "2")])
def test_smaller_and_larger_clusters_get_what_they_can_keep(brokers: int, replicas: str, in_sync: str) -> None:
    ports = [NodePorts(2 * index + 1, 2 * index + 2) for index in range(brokers)]

    (first, *_) = local_cluster(ports, data=["/d"] * brokers)

    assert (first["default.replication.factor"], first["min.insync.replicas"]) == (replicas, in_sync)
    assert first["offsets.topic.replication.factor"] == replicas


def test_what_stands_between_two_brokers_is_where_they_find_each_other() -> None:
    between = NodePorts(1, 2, 3, reached_client=11, reached_internal=13, reached_controller=12)

    (own,) = local_cluster([between], data=["/d"])

    assert own["listeners"] == "PLAINTEXT://127.0.0.1:1,INTERNAL://127.0.0.1:3,CONTROLLER://127.0.0.1:2"
    assert own["advertised.listeners"] == "PLAINTEXT://127.0.0.1:11,INTERNAL://127.0.0.1:13"
    assert own["controller.quorum.voters"] == "1@127.0.0.1:12"
    assert own["inter.broker.listener.name"] == "INTERNAL"


@pytest.mark.parametrize(
    "folder", ["/var/lib/tidelog", "/home/ren\u00e9/\u6e6f/\U0001f30a", "C:\\data\\new", "/a b=c:d"]
)
def test_a_properties_file_is_read_as_it_was_written(folder: str) -> None:
    (own,) = local_cluster([NodePorts(1, 2)], data=[folder])

    assert read_properties(show_properties(own)) == own
    assert show_properties(own).isascii()
