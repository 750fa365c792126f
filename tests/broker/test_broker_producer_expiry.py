"""Producers that stay silent are forgotten while the broker runs; the setting can be changed meanwhile."""

from __future__ import annotations

import tidelog
from harness.raw_client import RawClient, create_topic
from harness.raw_transactions import RawTransactions, producers_of
from harness.waiting import wait_until
from tidelog.client.admin import Admin
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import ConfigChange, Resource, ResourceType
from tidelog.model.errors import ErrorCode

CHECK_MS = 100


def test_silent_producers_are_forgotten_but_not_one_with_an_open_transaction() -> None:
    config = {"producer.id.expiration.ms": 400, "log.flush.offset.checkpoint.interval.ms": CHECK_MS}
    with tidelog.Broker(config=config) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "tides")
        silent, open_ = RawTransactions(client, "silent"), RawTransactions(client, "open")
        for producer in (silent, open_):
            assert producer.init().error_code == ErrorCode.NONE
            producer.write("tides", 0, b"x")
        silent.end()
        assert len(producers_of(client, "tides")) == 2

        wait_until(lambda: [each.producer_id for each in producers_of(client, "tides")] == [open_.producer_id])
        # The coordinator still knows it: it goes on where the partition has forgotten it.
        silent.write("tides", 0, b"y")
        silent.end()


def test_the_time_can_be_changed_while_the_broker_runs() -> None:
    config = {"log.flush.offset.checkpoint.interval.ms": CHECK_MS}
    with tidelog.Broker(config=config) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "tides")
        producer = RawTransactions(client, "silent")
        assert producer.init().error_code == ErrorCode.NONE
        producer.write("tides", 0, b"x")
        producer.end()
        assert len(producers_of(client, "tides")) == 1

        with Cluster(broker.bootstrap_servers) as cluster:
            everybody = Resource(ResourceType.BROKER, "")
            Admin(cluster).alter_configs(everybody, {"producer.id.expiration.ms": (ConfigChange.SET, "1")})
        wait_until(lambda: producers_of(client, "tides") == [])
