"""Which brokers hold the replicas of new partitions. Pure: brokers and loads in, replica lists out, the leader first.

What it keeps, in this order: no broker twice in a partition; leaders only on active brokers; a fenced broker only when
there are too few others; replicas of a partition on as many racks as there are; leaders, then replicas, of a topic even
over the brokers; a new topic begins where the cluster has least to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tidelog.metadata.image import BrokerRegistration
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId


@dataclass(slots=True)
class Loads:
    """How many partitions each broker is first in line to lead, and holds. Placement adds what it places."""

    leaders: dict[NodeId, int] = field(default_factory=dict)
    replicas: dict[NodeId, int] = field(default_factory=dict)

    def copy(self) -> Loads:
        return Loads(dict(self.leaders), dict(self.replicas))

    def add(self, replicas: Sequence[NodeId]) -> None:
        self.leaders[replicas[0]] = self.leaders.get(replicas[0], 0) + 1
        for broker in replicas:
            self.add_follower(broker)

    def add_follower(self, broker: NodeId) -> None:
        self.replicas[broker] = self.replicas.get(broker, 0) + 1

    def remove(self, replicas: Sequence[NodeId]) -> None:
        self.leaders[replicas[0]] -= 1
        for broker in replicas:
            self.replicas[broker] -= 1


def place(
    brokers: Iterable[BrokerRegistration],
    partitions: int,
    replication_factor: int,
    loads: Loads,
    present: Iterable[Sequence[NodeId]] = (),
) -> list[tuple[NodeId, ...]]:
    """The replicas of each new partition, and `loads` grown by them; INVALID_REPLICATION_FACTOR when impossible.

    `present` are the replicas of partitions that the topic already has.
    """
    ring = alternate_racks(brokers)
    _check(ring, replication_factor)
    active = [broker for broker in ring if broker.active]
    of_topic = Loads()
    for replicas in present:
        of_topic.add(replicas)
    # All leaders first, so that the choice of followers knows who has how much to do in the end.
    leaders = [_take_leader(active, of_topic, loads) for _ in range(partitions)]
    still_to_lead = Counter(leader.broker_id for leader in leaders)
    assignments = []
    for number, leader in enumerate(leaders):
        still_to_lead[leader.broker_id] -= 1
        # Each time around the ring the followers of a leader move on, so that its failure burdens all alike.
        shift = number // len(active)
        assignments.append(_with_followers(ring, leader, replication_factor, shift, still_to_lead, of_topic, loads))
    return assignments


def alternate_racks(brokers: Iterable[BrokerRegistration]) -> list[BrokerRegistration]:
    """Brokers in a ring in which neighbours are of different racks as far as possible. No rack is a rack of its own."""
    racks: dict[str, list[BrokerRegistration]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        racks.setdefault(broker.rack or "", []).append(broker)
    deepest = max(map(len, racks.values()), default=0)
    ordered = [racks[name] for name in sorted(racks)]
    return [rack[depth] for depth in range(deepest) for rack in ordered if depth < len(rack)]


def _check(ring: Sequence[BrokerRegistration], replication_factor: int) -> None:
    cannot = f"Unable to replicate the partition {replication_factor} time(s): "
    if replication_factor > len(ring):
        raise ProtocolError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{cannot}only {len(ring)} broker(s) are registered, which is fewer than the replication factor.",
        )
    if not any(broker.active for broker in ring):
        raise ProtocolError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{cannot}all brokers are currently fenced or in controlled shutdown.",
        )


def _take_leader(active: Sequence[BrokerRegistration], of_topic: Loads, loads: Loads) -> BrokerRegistration:
    leader = min(
        active,
        key=lambda broker: (
            of_topic.leaders.get(broker.broker_id, 0),
            loads.leaders.get(broker.broker_id, 0),
        ),
    )
    for counts in (of_topic, loads):
        counts.add((leader.broker_id,))
    return leader


def _with_followers(
    ring: Sequence[BrokerRegistration],
    leader: BrokerRegistration,
    replication_factor: int,
    shift: int,
    still_to_lead: Counter[NodeId],
    of_topic: Loads,
    loads: Loads,
) -> tuple[NodeId, ...]:
    """A leader and the followers that suit it best, one after another."""
    size = len(ring)
    at = ring.index(leader)
    chosen = [leader.broker_id]
    rack_uses = {leader.rack: 1}
    # The others in the order of the ring from the leader on, turned by the shift.
    others = [ring[(at + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)]
    while len(chosen) < replication_factor:
        best = min(
            others,
            key=lambda broker: (
                not broker.active,
                rack_uses.get(broker.rack, 0),
                of_topic.replicas.get(broker.broker_id, 0),
                # Who has yet to lead can follow less often later on: take it while that is possible.
                -still_to_lead[broker.broker_id],
                loads.replicas.get(broker.broker_id, 0),
            ),
        )
        others.remove(best)
        chosen.append(best.broker_id)
        rack_uses[best.rack] = rack_uses.get(best.rack, 0) + 1
        for counts in (of_topic, loads):
            counts.add_follower(best.broker_id)
    return tuple(chosen)
