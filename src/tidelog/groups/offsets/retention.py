"""Offsets that nobody needs any more: of groups that are empty for long, of topics that are gone (KIP-211).

A sweep looks at every group now and then, a few at a time. A group without members and without offsets goes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tidelog.groups.calls import Decision, Outcome
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import State
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.deadlines import Timer
from tidelog.groups.emptiness import is_empty, tombstones
from tidelog.groups.offsets.store import CommittedOffset
from tidelog.groups.records import Record, offset_tombstone
from tidelog.groups.shard import Group, GroupShard
from tidelog.machine.runtime import Result
from tidelog.model.ids import NO_TIMESTAMP

# Groups that one call looks at, so that a sweep never keeps heartbeats waiting.
GROUPS_PER_STEP_MAX: Final = 200
# Between two steps others have their turn.
STEP_PAUSE_MS: Final = 10
# Offsets that one call removes at most, more or less: those of one group go together.
TOMBSTONES_PER_STEP_MAX: Final = 2_000


def sweep(shard: GroupShard, timer: Timer, decision: Decision) -> None:
    """Remove what has expired in the next few groups, and come back for the others."""
    if not shard.unswept:
        shard.unswept = sorted(shard.groups, reverse=True)
    looked_at = 0
    while shard.unswept and looked_at < GROUPS_PER_STEP_MAX and len(decision.records) < TOMBSTONES_PER_STEP_MAX:
        group = shard.groups.get(shard.unswept.pop())
        looked_at += 1
        if group is not None:
            decision.records += _expired(shard, group, decision.now_ms)
    wait_ms = STEP_PAUSE_MS if shard.unswept else shard.settings.offsets_retention_check_interval_ms
    shard.deadlines.start(timer, decision.now_ms + wait_ms)


def topics_deleted(shard: GroupShard, topics: Iterable[str]) -> Outcome:
    """Topics are gone: so are the offsets in them. Submitted by the leader of the shard for each deletion."""
    records = [
        offset_tombstone(group_id, topic, partition)
        for topic in topics
        for group_id in sorted(shard.offsets.groups_by_topic.get(topic, ()))
        for name, partition in shard.offsets.partitions_of(group_id)
        if name == topic
    ]
    return Result(records, (), atomic=False)


def _expired(shard: GroupShard, group: Group, now_ms: int) -> list[Record]:
    """Tombstones for what has expired in a group; for all of it and the group itself when nothing is left."""
    offsets = shard.offsets
    records: list[Record] = []
    kept = offsets.has_pending(group.group_id)
    since_ms = _clock(group)
    for topic, partitions in offsets.by_group.get(group.group_id, {}).items():
        for partition, committed in partitions.items():
            if (
                since_ms is not None
                and not is_subscribed(group, topic)
                and _is_over(committed, since_ms(committed), now_ms, shard.settings.offsets_retention_ms)
                and not offsets.is_pending(group.group_id, topic, partition)
            ):
                records.append(offset_tombstone(group.group_id, topic, partition))
            else:
                kept = True
    if not kept and is_empty(group) and not (isinstance(group, ClassicGroup) and group.pending):
        records += tombstones(group)
    return records


def is_subscribed(group: Group, topic: str) -> bool:
    """Whether members read a topic, as far as can be known: consumers whose metadata is unreadable may read any."""
    if isinstance(group, ConsumerGroup):
        return any(topic in group.topics_of(member) for member in group.members.values())
    return group.is_consumers if group.topics is None else topic in group.topics


def _clock(group: Group) -> Callable[[CommittedOffset], int] | None:
    """From when the retention of an offset counts; None while its group keeps it."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return _committed_ms
    if group.state is State.EMPTY:
        return _committed_ms if group.state_since_ms == NO_TIMESTAMP else lambda _: group.state_since_ms
    if group.is_consumers and group.topics is not None and group.state is State.STABLE:
        return _committed_ms
    return None


def _committed_ms(committed: CommittedOffset) -> int:
    return committed.commit_timestamp_ms


def _is_over(committed: CommittedOffset, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return now_ms >= committed.expire_timestamp_ms
    return now_ms - since_ms >= retention_ms
