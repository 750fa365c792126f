"""Who leads a partition, and who is in sync, after brokers came or went. Pure functions over one partition.

The leader is a live member of the ISR, the first in the order of the replica list. When there is none, one of the
replicas that are known to miss nothing (ELR, KIP-966); when there is none, and only when asked for, any live replica,
which may lose records; else nobody, until one returns.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from tidelog.controller.moving import completed
from tidelog.metadata.image import LeaderRecoveryState, PartitionRegistration
from tidelog.metadata.replay import LEADER_UNCHANGED
from tidelog.model.ids import NO_NODE, NodeId, PartitionIndex, TopicId
from tidelog.wire.messages.metadata_records import PartitionChangeRecord

Nodes = tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the settings of a topic and the features of the cluster allow."""

    unclean: bool = False
    eligible_leaders: bool = False
    min_insync_replicas: int = 1


class Choice(NamedTuple):
    """A leader, or NO_NODE. An unclean one may lack records that were acknowledged."""

    leader: NodeId
    unclean: bool


NOBODY = Choice(NO_NODE, unclean=False)


def elect(
    partition: PartitionRegistration,
    isr: Nodes,
    eligible: Nodes,
    live: Container[NodeId],
    rules: Rules,
    *,
    preferred: bool = False,
) -> Choice:
    """Choose a leader. One that may stay, stays, unless the first replica is asked for and can take over."""
    safe = isr or eligible
    order = (partition.replicas[0], partition.leader) if preferred else (partition.leader,)
    for candidate in (*order, *partition.replicas):
        if candidate in safe and candidate in live:
            return Choice(candidate, unclean=False)
    if rules.eligible_leaders and not safe and len(partition.last_known_elr) == 1:
        last_leader = partition.last_known_elr[0]
        if last_leader in live:
            return Choice(last_leader, unclean=True)
    if rules.unclean:
        for candidate in partition.replicas:
            if candidate in live:
                return Choice(candidate, unclean=True)
    return NOBODY


def change(
    topic_id: TopicId,
    index: PartitionIndex,
    partition: PartitionRegistration,
    live: Container[NodeId],
    rules: Rules,
    *,
    without: Iterable[NodeId] = (),
    preferred: bool = False,
    in_sync: Nodes | None = None,
    lost: Container[NodeId] = (),
) -> PartitionChangeRecord | None:
    """The record that brings a partition in line with who is live, or None when it already is.

    `in_sync` is the ISR that the leader asks for, if it does; `without` leave it. An ISR is never made empty, except
    where eligible leaders remember who was in it; those in `lost` may lack what they had, and are none. A reassignment
    whose new replicas are all in sync is completed.
    """
    gone = set(without)
    isr = tuple(node for node in (partition.isr if in_sync is None else in_sync) if node not in gone)
    before = partition
    arrived = completed(partition, isr)
    if arrived is not None:
        replicas, isr = arrived
        partition = msgspec.structs.replace(partition, replicas=replicas)
    eligible = _eligible(partition, isr, rules, lost)
    leader, unclean = elect(partition, isr, eligible, live, rules, preferred=preferred)
    if unclean:
        isr, eligible = (leader,), ()
    elif not isr and leader != NO_NODE:
        isr, eligible = (leader,), tuple(node for node in eligible if node != leader)
    elif not isr and not rules.eligible_leaders:
        isr = partition.isr
    record = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    blank = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    if leader != partition.leader:
        record.leader = leader
    if isr != partition.isr:
        record.isr = list(isr)
    if eligible != partition.eligible_leader_replicas:
        record.eligible_leader_replicas = list(eligible)
    last_known = _last_known(partition, isr, leader, rules)
    if last_known != partition.last_known_elr:
        record.last_known_elr = list(last_known)
    if unclean and partition.leader_recovery_state is not LeaderRecoveryState.RECOVERING:
        record.leader_recovery_state = LeaderRecoveryState.RECOVERING
    if arrived is not None:
        _complete(record, before, partition)
    return None if record == blank else record


def _complete(record: PartitionChangeRecord, before: PartitionRegistration, after: PartitionRegistration) -> None:
    record.replicas = list(after.replicas)
    record.adding_replicas, record.removing_replicas = [], []
    record.directories = [before.directory_of(node) for node in after.replicas]
    if record.leader == LEADER_UNCHANGED and before.removing_replicas:
        # A new epoch all the same: who was removed is fenced by it.
        record.leader = before.leader


def _eligible(partition: PartitionRegistration, isr: Nodes, rules: Rules, lost: Container[NodeId]) -> Nodes:
    """Who left the ISR while it was too small for anything new to be committed without them."""
    if not rules.eligible_leaders or len(isr) >= min(rules.min_insync_replicas, len(partition.replicas)):
        return ()
    known = {*partition.isr, *partition.eligible_leader_replicas}
    return tuple(node for node in partition.replicas if node in known and node not in isr and node not in lost)


def _last_known(partition: PartitionRegistration, isr: Nodes, leader: NodeId, rules: Rules) -> Nodes:
    """While nobody leads and nobody is in sync: who led last."""
    if not rules.eligible_leaders or leader != NO_NODE:
        return ()
    if isr:
        return partition.last_known_elr
    return (partition.leader,) if partition.has_leader else partition.last_known_elr
