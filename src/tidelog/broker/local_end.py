"""The markers of a transaction all of whose partitions this broker leads and has the only replicas of.

Its own writes are all that they need, so the host of a shard has the turn write them when its answers have left.
Whatever is not that simple, committed offsets among them, and whatever fails, is for `broker/transaction_markers.py`,
which may write markers again that were written here: they do no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.broker.group_coordinator import OFFSETS_TOPIC
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import LeaderEpoch, TopicPartition
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import NONE_LED
from tidelog.transactions.states import State
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION, Transaction

Led = Mapping[str, Mapping[int, PartitionLeader]]


def lone_leaders(led: Led, partitions: Iterable[TopicPartition]) -> list[PartitionLeader] | None:
    """The leaders of all partitions, if each is here and its own write is enough; None when one is not."""
    leaders = []
    for topic, index in partitions:
        leader = led.get(topic, NONE_LED).get(index)
        if leader is None or leader.failed or not leader.own_write_is_enough or topic == OFFSETS_TOPIC:
            return None
        leaders.append(leader)
    if len(leaders) > 1:
        # A simulation must be the same each time.
        leaders.sort(key=lambda leader: leader.log.partition)
    return leaders or None


def write_markers(
    decided: Transaction, coordinator_epoch: LeaderEpoch, leaders: Iterable[PartitionLeader], now_ms: int
) -> bool:
    """Write the marker of each partition, now; False when one of them is not written, or not safe with that."""
    producer_id, epoch, committed = decided.producer_id, decided.producer_epoch, decided.state is State.PREPARE_COMMIT
    is_newer = decided.client_version >= EPOCH_BUMPING_VERSION
    try:
        for leader in leaders:
            leader.log.producers.check_marker(producer_id, epoch, coordinator_epoch, is_newer=is_newer)
            leader.append_marker(producer_id, epoch, committed, coordinator_epoch, now_ms)
            if not leader.own_write_is_enough:
                # Others have begun to follow since it was decided.
                return False
    except ProtocolError:
        return False
    return True
