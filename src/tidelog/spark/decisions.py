"""What the driver of a stream has decided: that a batch is committed, and which prepared transactions are its parts.

Kept as the committed offset of a group named after the sink, in its metadata: one look-up finds it, and a transaction
of the driver writes it, so that of two drivers only one can. Pure; `two_phase.py` reads and writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.client.core.groups import CommittedOffset
from tidelog.client.core.transaction import PreparedTransaction
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.spark.errors import SinkFailed

GROUP_PREFIX: Final = "tidelog-sink-"
# Kafka keeps 4096 bytes of metadata for an offset (`offset.metadata.max.bytes`).
METADATA_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """One transactional id of a sink: that of a task, and a number that grows while ids are still in use."""

    task: int
    number: int

    def transactional_id(self, sink_id: str) -> str:
        return f"{GROUP_PREFIX}{sink_id}-{self.task}-{self.number}"


@dataclass(frozen=True, slots=True)
class Part:
    """What a task has written and prepared."""

    slot: Slot
    prepared: PreparedTransaction

    def __str__(self) -> str:
        return f"{self.slot.task}.{self.slot.number}.{self.prepared.producer_id}.{self.prepared.producer_epoch}"

    @classmethod
    def parse(cls, text: str) -> Part:
        task, number, producer_id, epoch = text.split(".")
        return cls(Slot(int(task), int(number)), PreparedTransaction.parse(f"{producer_id}:{epoch}"))


@dataclass(frozen=True, slots=True)
class Decision:
    """The newest batch that is decided, and its parts."""

    batch_id: int
    parts: tuple[Part, ...]


def group_of(sink_id: str) -> str:
    return f"{GROUP_PREFIX}{sink_id}"


def offsets_of(decision: Decision, topic: TopicName, partitions: int) -> dict[TopicPartition, CommittedOffset]:
    """The decision as offsets of a group: as many partitions of the topic as its parts need room."""
    chunks: list[str] = [""]
    for part in map(str, sorted(decision.parts, key=lambda part: part.slot)):
        if len(chunks[-1]) + len(part) + 1 > METADATA_BYTES_MAX:
            chunks.append("")
        chunks[-1] += part if not chunks[-1] else f" {part}"
    if len(chunks) > partitions:
        message = f"{len(decision.parts)} tasks wrote, more than can be committed at once to '{topic}'"
        raise SinkFailed(f"{message} with {partitions} partitions: coalesce the DataFrame to fewer partitions.")
    return {
        TopicPartition(topic, PartitionIndex(index)): CommittedOffset(Offset(decision.batch_id + 1), metadata=chunk)
        for index, chunk in enumerate(chunks)
    }


def decision_in(offsets: Mapping[TopicPartition, CommittedOffset] | Iterable[CommittedOffset]) -> Decision | None:
    """The newest decision among the offsets of a group; older ones may be left in partitions that it did not need."""
    found: Sequence[CommittedOffset] = list(offsets.values() if isinstance(offsets, Mapping) else offsets)
    if not found:
        return None
    newest = max(each.offset for each in found)
    texts = " ".join(each.metadata for each in found if each.offset == newest).split()
    return Decision(newest - 1, tuple(sorted((Part.parse(text) for text in texts), key=lambda part: part.slot)))
