"""What a client knows of a cluster gets old: it asks again before it says that something is not there."""

from __future__ import annotations

import pytest

import tidelog
from tidelog.client.admin import Admin, accepted
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.client.deadline import Deadline
from tidelog.client.errors import Rejected
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition


def test_a_partition_that_was_added_later_is_found() -> None:
    topic = TopicName("growing")
    with (
        tidelog.Broker() as broker,
        Cluster(broker.bootstrap_servers) as known,
        Cluster(broker.bootstrap_servers) as other,
    ):
        admin = Admin(other)
        accepted(admin.create_topics([NewTopic(topic, 1)])[topic])
        known.leader(TopicPartition(topic, PartitionIndex(0)), Deadline(10))
        assert admin.create_partitions({topic: 2}) == {topic: None}

        assert known.leader(TopicPartition(topic, PartitionIndex(1)), Deadline(10)).id == 1
        with pytest.raises(Rejected, match="has 2 partitions, but no partition 2"):
            known.leader(TopicPartition(topic, PartitionIndex(2)), Deadline(10))
