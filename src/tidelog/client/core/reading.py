"""Where a consumer is in each partition: what it may fetch, what has come and waits to be handed out, where it goes on.

The engine asks what to fetch and brings what came; the front takes it out. The one lock of a blocking consumer is held
around every call. Knows nothing of groups, only which partitions are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidelog.client.core.chunk import FetchedChunk
from tidelog.client.core.fetch_session import Wanted
from tidelog.client.core.groups import CommittedOffset
from tidelog.client.core.metadata import ClusterView, Node
from tidelog.client.errors import ClientError, Rejected
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, NO_NODE, LeaderEpoch, NodeId, Offset, TopicName, TopicPartition

# How many chunks of a partition may wait: one to hand out, one to come meanwhile.
CHUNKS_AHEAD: Final = 2


class Place:
    """One partition that is read."""

    __slots__ = (
        "chunks",
        "fetch_epoch",
        "fetch_offset",
        "high_watermark",
        "is_asking",
        "is_checking",
        "last_stable",
        "log_start",
        "partition",
        "paused",
        "position",
        "position_epoch",
        "replica",
        "reset_to_ms",
        "trusted_epoch",
        "version",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        # The next record to hand out; None until it is known where to begin.
        self.position: Offset | None = None
        # The next record to ask a broker for.
        self.fetch_offset: Offset | None = None
        # The epochs of the records before the two; NO_EPOCH where that is not known.
        self.position_epoch: LeaderEpoch = NO_EPOCH
        self.fetch_epoch: LeaderEpoch = NO_EPOCH
        # The epoch of the leader that is known to have what was read; one of a later epoch is asked first (KIP-320).
        self.trusted_epoch: LeaderEpoch = NO_EPOCH
        # Somebody is asking it.
        self.is_checking = False
        # A time, or one of the special ones, at which to begin; None: where the group stopped.
        self.reset_to_ms: int | None = None
        # Somebody is finding out where to begin.
        self.is_asking = False
        self.paused = False
        self.chunks: deque[FetchedChunk] = deque()
        # Changes when what was fetched does not count any more.
        self.version = 0
        self.high_watermark: Offset | None = None
        self.last_stable: Offset | None = None
        self.log_start: Offset | None = None
        # A replica nearer than the leader (KIP-392).
        self.replica: NodeId = NO_NODE

    def go_to(self, offset: Offset, epoch: LeaderEpoch = NO_EPOCH) -> None:
        """Go on from an offset; `epoch` is that of the record before it."""
        self.position = self.fetch_offset = offset
        self.position_epoch = self.fetch_epoch = epoch
        self.trusted_epoch = NO_EPOCH
        self.reset_to_ms = None
        self.forget()

    def went_to(self, offset: Offset, epoch: LeaderEpoch) -> None:
        """The records before an offset, of which the last is of this epoch, were handed out."""
        self.position = offset
        self.position_epoch = epoch

    def fetch_again(self) -> None:
        """What was fetched and not handed out is not the leader's: fetch it anew."""
        self.fetch_offset, self.fetch_epoch = self.position, self.position_epoch
        self.forget()

    def forget(self) -> None:
        """Nothing that was fetched counts any more."""
        self.chunks.clear()
        self.version += 1
        self.is_asking = False
        self.is_checking = False


class EpochQuestion(NamedTuple):
    """Where do the records of `epoch` end? Asked of a leader that counts as one of `leader_epoch`."""

    epoch: LeaderEpoch
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class Wants:
    """What is to be asked of each broker, and the topics whose leaders are not known."""

    fetches: dict[Node, dict[TopicPartition, Wanted]] = field(default_factory=dict)
    checks: dict[Node, dict[TopicPartition, EpochQuestion]] = field(default_factory=dict)
    unknown: set[TopicName] = field(default_factory=set)


class Reading:
    """All partitions that are read."""

    def __init__(self, partition_bytes_max: int, buffer_bytes_max: int) -> None:
        self.places: dict[TopicPartition, Place] = {}
        self.partition_bytes_max = partition_bytes_max
        self._buffer_bytes_max = buffer_bytes_max
        self._turn: deque[TopicPartition] = deque()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these, and no others. Those that were read before go on where they are."""
        wanted = dict.fromkeys(partitions)
        for partition in [partition for partition in self.places if partition not in wanted]:
            self.places.pop(partition).forget()
        for partition in wanted:
            if partition not in self.places:
                self.places[partition] = Place(partition)
        self._turn = deque(self.places)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        self.assign([partition for partition in self.places if partition not in gone])

    def place(self, partition: TopicPartition) -> Place:
        """The partition, which has to be assigned."""
        found = self.places.get(partition)
        if found is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} is not assigned to this consumer.")
        return found

    def reset(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> None:
        """Go to a time, as soon as it is known which offset that is."""
        for partition in partitions:
            place = self.place(partition)
            place.forget()
            place.position = place.fetch_offset = None
            place.reset_to_ms = timestamp_ms

    def unplaced(self) -> list[Place]:
        """Partitions of which nobody is finding out where to begin."""
        return [place for place in self.places.values() if place.position is None and not place.is_asking]

    def positions(self) -> dict[TopicPartition, Offset]:
        """The next record of each partition of which it is known."""
        return {partition: place.position for partition, place in self.places.items() if place.position is not None}

    def to_commit(self) -> dict[TopicPartition, CommittedOffset]:
        """How far each partition was read, as a group remembers it."""
        return {
            partition: CommittedOffset(place.position, place.position_epoch)
            for partition, place in self.places.items()
            if place.position is not None
        }

    def wants(self, view: ClusterView) -> Wants:
        """What to ask each broker for. A partition that is to be checked is not fetched before that."""
        found = Wants()
        waiting_bytes = sum(len(chunk.data) for place in self.places.values() for chunk in place.chunks)
        if waiting_bytes >= self._buffer_bytes_max:
            return found
        for partition, place in self.places.items():
            if place.fetch_offset is None or place.paused or place.is_checking or len(place.chunks) >= CHUNKS_AHEAD:
                continue
            known = view.partition(partition)
            leader = None if known is None else view.nodes.get(known.leader)
            if known is None or leader is None:
                found.unknown.add(partition.topic)
                continue
            if known.leader_epoch > place.trusted_epoch:
                if place.fetch_epoch != NO_EPOCH:
                    place.is_checking = True
                    question = EpochQuestion(place.fetch_epoch, known.leader_epoch)
                    found.checks.setdefault(leader, {})[partition] = question
                    continue
                place.trusted_epoch = known.leader_epoch
            node = view.nodes.get(place.replica, leader)
            wanted = Wanted(place.fetch_offset, known.leader_epoch, self.partition_bytes_max)
            found.fetches.setdefault(node, {})[partition] = wanted
        return found

    def came(self, chunk: FetchedChunk, next_offset: Offset) -> bool:
        """Keep what was fetched; False when the consumer is elsewhere by now."""
        place = self.places.get(chunk.partition)
        if place is None or place.fetch_offset != chunk.position:
            return False
        place.chunks.append(chunk)
        place.fetch_offset = next_offset
        place.fetch_epoch = chunk.last_epoch
        return True

    def take(self) -> tuple[Place, FetchedChunk] | None:
        """What to hand out next: partitions take turns."""
        for _ in range(len(self._turn)):
            partition = self._turn[0]
            self._turn.rotate(-1)
            place = self.places[partition]
            if place.chunks and not place.paused:
                return place, place.chunks.popleft()
        return None

    def has_some(self) -> bool:
        """Whether there is something to hand out."""
        return any(place.chunks and not place.paused for place in self.places.values())


def missing_position(partition: TopicPartition, offset: Offset | None) -> ClientError:
    """The error of a consumer that may not choose by itself where to begin."""
    if offset is None:
        message = f"The group has no offset for {partition}, and auto_offset_reset is none."
    else:
        message = f"Offset {offset} of {partition} is outside of what the partition holds."
    return Rejected(ErrorCode.OFFSET_OUT_OF_RANGE, message)


def by_leader(
    view: ClusterView, partitions: Mapping[TopicPartition, int]
) -> tuple[dict[Node, dict[TopicPartition, int]], set[TopicName]]:
    """Questions by the broker that answers them, and the topics whose leaders are not known."""
    found: dict[Node, dict[TopicPartition, int]] = {}
    unknown: set[TopicName] = set()
    for partition, question in partitions.items():
        leader = view.leader(partition)
        if leader is None:
            unknown.add(partition.topic)
        else:
            found.setdefault(leader, {})[partition] = question
    return found, unknown
