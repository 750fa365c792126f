"""kafka-log-dirs: what brokers keep in their directories, as one line of JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KafkaParser, cluster_of
from tidelog.model.ids import NodeId

if TYPE_CHECKING:
    from tidelog.client.core.described import LogDir


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    from tidelog.client.admin import Admin

    parser = KafkaParser("kafka-log-dirs", "Shows what brokers keep in their log directories.")
    # --broker-list has a meaning of its own here.
    parser.bootstrap(old=("--zookeeper",))
    parser.flag("--describe", "Show the directories.")
    parser.option("--topic-list", "TOPIC,…", "Only these topics.", default="")
    parser.option("--broker-list", "ID,…", "Only these brokers.", default="")
    options = parser.read(arguments)
    parser.require(options, "bootstrap-server", "describe")
    topics = {name for name in options.topic_list.split(",") if name}
    with cluster_of(options) as cluster:
        admin = Admin(cluster)
        existing = sorted(node.id for node in admin.describe_cluster().brokers)
        wanted = _broker_ids(options.broker_list) or existing
        missing = [node for node in wanted if node not in existing]
        if missing:
            print(
                f"ERROR: The given brokers do not exist from --broker-list: {_comma(missing)}. "
                f"Current existent brokers: {_comma(existing)}",
                file=sys.stderr,
            )
            return 1
        print("Querying brokers for log directories information")
        described = {node: admin.describe_log_dirs(node) for node in wanted}
    print(f"Received log directory information from brokers {_comma(wanted)}")
    brokers = [
        {"broker": node, "logDirs": [_log_dir(directory, topics) for directory in directories]}
        for node, directories in described.items()
    ]
    print(msgspec.json.encode({"brokers": brokers, "version": 1}).decode())
    return 0


def _broker_ids(text: str) -> list[NodeId]:
    try:
        return [NodeId(int(part)) for part in text.split(",") if part]
    except ValueError:
        raise BadInput(f"'{text}' is no list of broker ids.") from None


def _comma(nodes: Sequence[NodeId]) -> str:
    return ",".join(map(str, nodes))


def _log_dir(directory: LogDir, topics: set[str]) -> dict[str, object]:
    return {
        "partitions": [
            {
                "partition": str(replica.partition),
                "size": replica.size_bytes,
                "offsetLag": replica.offset_lag,
                "isFuture": replica.is_future,
            }
            for replica in directory.replicas
            if not topics or replica.partition.topic in topics
        ],
        "error": directory.error.name if directory.error else None,
        "logDir": directory.path,
    }
