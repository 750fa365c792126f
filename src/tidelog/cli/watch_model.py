"""What `tidelog watch` shows, as values: brokers, the quorum, each partition with its replicas, and what changed.

Pure: `watch_probe.py` fills it, `watch_picture.py` draws it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.cli.output import Json
from tidelog.client.quorum import Quorum
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, TopicPartition

NOBODY: Final = NodeId(-1)
# More changes of one kind at once are counted, not listed.
SINGLY_MAX: Final = 2


@dataclass(frozen=True, slots=True)
class WatchedBroker:
    """A broker that is or was in the cluster. `answers`: whether it does at the moment."""

    id: NodeId
    address: str
    registered: bool
    answers: bool


@dataclass(frozen=True, slots=True)
class WatchedPartition:
    """One partition; `ends` has the end offset of each replica that told it."""

    place: TopicPartition
    leader: NodeId
    epoch: LeaderEpoch
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    eligible: tuple[NodeId, ...] | None
    high_watermark: Offset | None
    ends: Mapping[NodeId, Offset] = field(default_factory=dict)

    @property
    def end(self) -> Offset | None:
        """The leader's end offset, or the highest that is known."""
        known = self.ends.get(self.leader)
        return known if known is not None else max(self.ends.values(), default=None)

    def lag(self, node: NodeId) -> int | None:
        """How many records a replica is behind."""
        end, own = self.end, self.ends.get(node)
        return None if end is None or own is None else max(end - own, 0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment, in seconds of the wall clock. `hidden`: how many partitions are not looked at."""

    at: float
    cluster_id: str
    controller: NodeId
    brokers: tuple[WatchedBroker, ...]
    partitions: tuple[WatchedPartition, ...]
    quorum: Quorum | None
    hidden: int = 0

    def as_json(self) -> Json:
        quorum = self.quorum
        return {
            "at": round(self.at, 3),
            "cluster_id": self.cluster_id,
            "controller": self.controller,
            "brokers": [
                {"id": one.id, "address": one.address, "registered": one.registered, "answers": one.answers}
                for one in self.brokers
            ],
            "quorum": None
            if quorum is None
            else {
                "leader": quorum.leader,
                "epoch": quorum.epoch,
                "high_watermark": quorum.high_watermark,
                "voters": {str(one.node_id): one.end_offset for one in quorum.voters},
                "observers": {str(one.node_id): one.end_offset for one in quorum.observers},
            },
            "partitions": [
                {
                    "topic": one.place.topic,
                    "partition": one.place.partition,
                    "leader": one.leader,
                    "leader_epoch": one.epoch,
                    "replicas": one.replicas,
                    "isr": one.isr,
                    "eligible_leaders": one.eligible,
                    "end_offset": one.end,
                    "high_watermark": one.high_watermark,
                    "end_offsets": {str(node): offset for node, offset in one.ends.items()},
                }
                for one in self.partitions
            ],
            "hidden_partitions": self.hidden,
        }


def changes(before: Snapshot, now: Snapshot) -> Iterator[str]:
    """What happened between two looks, as sentences."""
    if before.controller != now.controller:
        yield f"controller: {_node(before.controller)} → {_node(now.controller)}"
    brokers = {one.id: one for one in before.brokers}
    for broker in now.brokers:
        was = brokers.get(broker.id)
        if was is None:
            yield f"broker {broker.id} is there"
        elif was.registered != broker.registered:
            yield f"broker {broker.id} " + ("is back" if broker.registered else "is gone")
        elif was.registered and was.answers != broker.answers:
            yield f"broker {broker.id} " + ("answers again" if broker.answers else "does not answer")
    yield from _partition_changes(before, now)


def _partition_changes(before: Snapshot, now: Snapshot) -> Iterator[str]:
    known = {one.place: one for one in before.partitions}
    moved, resynced = [], []
    for one in now.partitions:
        then = known.get(one.place)
        if then is None:
            yield f"{one.place} is there"
            continue
        if then.leader != one.leader:
            moved.append((then, one))
        elif then.epoch != one.epoch:
            yield f"{one.place}: epoch {then.epoch} → {one.epoch}"
        if then.replicas != one.replicas:
            yield f"{one.place}: replicas {_nodes(then.replicas)} → {_nodes(one.replicas)}"
        if set(then.isr) != set(one.isr):
            resynced.append((then, one))
    yield from _leader_changes(moved)
    yield from _isr_changes(resynced)
    for place in known.keys() - {one.place for one in now.partitions}:
        yield f"{place} is gone"


def _leader_changes(moved: list[tuple[WatchedPartition, WatchedPartition]]) -> Iterator[str]:
    if len(moved) <= SINGLY_MAX:
        for then, one in moved:
            yield f"{one.place}: leader {_node(then.leader)} → {_node(one.leader)}, epoch {one.epoch}"
        return
    for (old, new), count in Counter((then.leader, one.leader) for then, one in moved).items():
        yield f"{_partitions(count)}: leader {_node(old)} → {_node(new)}"


def _isr_changes(resynced: list[tuple[WatchedPartition, WatchedPartition]]) -> Iterator[str]:
    if len(resynced) <= SINGLY_MAX:
        for then, one in resynced:
            yield f"{one.place}: in sync {_nodes(then.isr)} → {_nodes(one.isr)}"
        return
    for word, changed in (
        ("left", Counter(node for then, one in resynced for node in set(then.isr) - set(one.isr))),
        ("joined", Counter(node for then, one in resynced for node in set(one.isr) - set(then.isr))),
    ):
        for node, count in sorted(changed.items()):
            yield f"{_partitions(count)}: {node} {word} those in sync"


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"


def _node(node: NodeId) -> str:
    return "nobody" if node < 0 else str(node)


def _nodes(nodes: tuple[NodeId, ...]) -> str:
    return ",".join(map(str, nodes)) or "nobody"
