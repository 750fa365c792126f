"""The metadata log as Apache Kafka's own tool reads it, and Apache Kafka's metadata log as we read it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from harness.controller_desk import Desk
from harness.java import JavaTools, run_tool
from harness.server import ServerProcess
from tidelog.controller import brokers, producer_ids
from tidelog.controller.features import METADATA_VERSION_HIGHEST
from tidelog.controller.settings import Alteration, Operation, alter
from tidelog.controller.topics import MorePartitions, NewTopic, add_partitions, create, delete
from tidelog.metadata.codec import decode_record, encode_record
from tidelog.metadata.image import EMPTY, ConfigResource, ResourceType
from tidelog.metadata.replay import replay
from tidelog.metadata.snapshot import records_of
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.wire.batch import iter_headers
from tidelog.wire.records import Record, build_batch, read_records


def busy_cluster() -> Desk:
    """A cluster in whose log there is a record of each kind that the controller writes."""
    desk = Desk(nodes=(1, 2, 3), racks={1: "a"})
    desk.run(create, [NewTopic("orders", 2, 3, settings=[("retention.ms", "1000")]), NewTopic("gone", 1, 1)])
    desk.run(add_partitions, [MorePartitions("orders", 3)])
    desk.run(delete, ["gone"])
    topic = ConfigResource(ResourceType.TOPIC, "orders")
    desk.run(alter, [(topic, [Alteration("retention.ms", Operation.DELETE, None)])])
    desk.run(producer_ids.allocate, NodeId(1), desk.image.brokers[NodeId(1)].epoch)
    desk.beat(2, want_shut_down=True)
    desk.beat(3, want_fence=True)
    desk.run(brokers.unregister, NodeId(3))
    return desk


def dumped(segment: Path) -> list[dict[str, Any]]:
    """What the tool says each record holds."""
    printed = run_tool("kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(segment))
    assert "invalid" not in printed.lower(), printed
    return [json.loads(payload) for payload in re.findall(r"payload: (\{.*\})", printed)]


def test_apache_kafkas_dump_tool_reads_every_record_that_the_controller_writes(tmp_path: Path) -> None:
    desk = busy_cluster()
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    segment = folder / f"{0:020}.log"
    segment.write_bytes(
        build_batch([Record(offset, 1, None, encode_record(record)) for offset, record in enumerate(desk.log)])
    )

    read = dumped(segment)

    kinds = [re.sub(r"(?<!^)([A-Z])", r"_\1", type(record).__name__).upper() for record in desk.log]
    assert [entry["type"] for entry in read] == kinds
    assert {"TOPIC_RECORD", "PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "PRODUCER_IDS_RECORD"} <= set(kinds)
    partition = next(entry for entry in read if entry["type"] == "PARTITION_RECORD")
    assert partition["version"] == 2
    assert partition["data"]["replicas"] == list(desk.log[kinds.index("PARTITION_RECORD")].replicas)  # type: ignore[attr-defined]
    assert len(partition["data"]["directories"]) == 3
    registered = next(entry for entry in read if entry["type"] == "REGISTER_BROKER_RECORD")
    assert registered["data"]["rack"] == "a"
    assert registered["data"]["endPoints"] == [
        {"name": "PLAINTEXT", "host": "localhost", "port": 9091, "securityProtocol": 0}
    ]


def test_the_metadata_log_of_a_running_apache_kafka_replays_to_what_it_holds(apache_kafka: ServerProcess) -> None:
    tools = JavaTools(apache_kafka.bootstrap_servers)
    tools.topics("--create", "--topic", "replayed", "--partitions", "3", "--config", "retention.ms=1234")
    (segment,) = (apache_kafka.folder / "data" / "__cluster_metadata-0").glob("*.log")
    data = memoryview(segment.read_bytes())
    image = EMPTY

    for position, header in iter_headers(data):
        if not header.is_control:
            records = [decode_record(record.value or b"") for record in read_records(data, position)]
            image = replay(image, records, Offset(header.last_offset), LeaderEpoch(header.leader_epoch)).after

    topic = image.topic("replayed")
    assert topic is not None
    assert [(index, partition.leader, partition.isr) for index, partition in topic.partitions.items()] == [
        (0, 1, (1,)),
        (1, 1, (1,)),
        (2, 1, (1,)),
    ]
    assert image.config(ConfigResource(ResourceType.TOPIC, "replayed")) == {"retention.ms": "1234"}
    assert image.features["metadata.version"] == METADATA_VERSION_HIGHEST
    assert image.brokers[NodeId(1)].active
    assert image.brokers[NodeId(1)].endpoints["PLAINTEXT"].port == apache_kafka.port
    assert replay(EMPTY, records_of(image), image.offset, image.epoch).after == image
