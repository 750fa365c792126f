"""Partitions and offsets as commands about groups take them: `topic`, `topic:0,1,2`, and files of comma-separated rows.

A row is `topic,partition,offset`, or `group,topic,partition,offset` where several groups are meant. Shared by
`tidelog groups` and `kafka-consumer-groups`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.failures import BadInput
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster

COLUMNS_OF_ONE_GROUP: Final = 3
COLUMNS_OF_SEVERAL: Final = 4

GroupOffsets = dict[str, dict[TopicPartition, Offset]]


def named_partitions(cluster: Cluster, given: Iterable[str]) -> list[TopicPartition]:
    """The partitions that `topic` or `topic:0,1` name; a topic alone means all of its partitions, and must exist."""
    found: dict[TopicPartition, None] = {}
    for text in given:
        topic, colon, numbers = text.partition(":")
        if colon:
            found |= dict.fromkeys(_numbered(text, topic, numbers))
            continue
        known = cluster.topic(TopicName(topic), cluster.deadline())
        found |= dict.fromkeys(TopicPartition(known.name, partition.index) for partition in known.partitions)
    return list(found)


def _numbered(text: str, topic: str, numbers: str) -> list[TopicPartition]:
    try:
        return [TopicPartition(TopicName(topic), PartitionIndex(int(number))) for number in numbers.split(",")]
    except ValueError:
        raise BadInput(f"Invalid partitions in '{text}': write topic:0,1,2.") from None


def read_offsets(path: str, groups: Iterable[str]) -> GroupOffsets:
    """The offsets in a file; rows without a group are for the only one."""
    wanted = list(groups)
    found: GroupOffsets = {}
    with Path(path).open(newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if not row:
                continue
            group, cells = (wanted[0], row) if len(row) == COLUMNS_OF_ONE_GROUP and wanted else (row[0], row[1:])
            try:
                topic, partition, offset = cells
                place = TopicPartition(TopicName(topic), PartitionIndex(int(partition)))
                found.setdefault(group, {})[place] = Offset(int(offset))
            except ValueError:
                raise BadInput(
                    f"{path}:{number}: a row is topic,partition,offset or group,topic,partition,offset."
                ) from None
    return found


def show_offsets(offsets: Mapping[str, Mapping[TopicPartition, Offset]], *, with_group: bool) -> str:
    """The rows that `read_offsets` reads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, places in offsets.items():
        for place, offset in sorted(places.items()):
            writer.writerow([*([group] if with_group else []), place.topic, place.partition, offset])
    return text.getvalue()
