"""Tidelog: a Kafka-compatible streaming platform that is a Python package.

What it offers is loaded on first use, so that `import tidelog` and the command line stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidelog.model.version import __version__

if TYPE_CHECKING:
    from tidelog.client.aio.admin import AsyncAdmin
    from tidelog.client.aio.consumer import AsyncConsumer
    from tidelog.client.aio.producer import AsyncProducer
    from tidelog.client.blocking.admin import Admin
    from tidelog.client.blocking.consumer import Consumer
    from tidelog.client.blocking.producer import Producer
    from tidelog.client.core.buffer_policy import BufferFullPolicy
    from tidelog.client.core.described import NewTopic
    from tidelog.client.core.record import ConsumerRecord, RecordMetadata
    from tidelog.client.core.subscription import RebalanceListener
    from tidelog.client.core.transaction import GroupMetadata, PreparedTransaction
    from tidelog.client.errors import ClientError
    from tidelog.client.tables import TopicTable, read_topic
    from tidelog.model.ids import TopicPartition
    from tidelog.testing.cluster import Cluster
    from tidelog.testing.embedded import Broker

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "Broker",
    "BufferFullPolicy",
    "ClientError",
    "Cluster",
    "Consumer",
    "ConsumerRecord",
    "GroupMetadata",
    "NewTopic",
    "PreparedTransaction",
    "Producer",
    "RebalanceListener",
    "RecordMetadata",
    "TopicPartition",
    "TopicTable",
    "__version__",
    "read_topic",
]

_MODULES: Final = {
    "Admin": "tidelog.client.blocking.admin",
    "AsyncAdmin": "tidelog.client.aio.admin",
    "AsyncConsumer": "tidelog.client.aio.consumer",
    "AsyncProducer": "tidelog.client.aio.producer",
    "Broker": "tidelog.testing.embedded",
    "BufferFullPolicy": "tidelog.client.core.buffer_policy",
    "ClientError": "tidelog.client.errors",
    "Cluster": "tidelog.testing.cluster",
    "Consumer": "tidelog.client.blocking.consumer",
    "ConsumerRecord": "tidelog.client.core.record",
    "GroupMetadata": "tidelog.client.core.transaction",
    "NewTopic": "tidelog.client.core.described",
    "PreparedTransaction": "tidelog.client.core.transaction",
    "Producer": "tidelog.client.blocking.producer",
    "RebalanceListener": "tidelog.client.core.subscription",
    "RecordMetadata": "tidelog.client.core.record",
    "TopicPartition": "tidelog.model.ids",
    "TopicTable": "tidelog.client.tables",
    "read_topic": "tidelog.client.tables",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
