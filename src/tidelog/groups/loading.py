"""The moment a shard begins to lead: its groups are as the log says, and everyone in them gets a new session."""

from __future__ import annotations

from tidelog.groups.calls import Decision, Outcome
from tidelog.groups.classic.rebalance import prepare, restart_session
from tidelog.groups.consumer import sessions
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.shard import GroupShard


def loaded(shard: GroupShard, now_ms: int) -> Outcome:
    """Begin to lead, after all that is committed was replayed. The first command of a coordinator."""
    assert not shard.leading
    shard.leading = True
    decision = Decision(now_ms)
    for group in shard.groups.values():
        if isinstance(group, ConsumerGroup):
            for consumer in group.members.values():
                sessions.restart_session(shard, group.group_id, consumer, now_ms)
                sessions.watch_revocation(shard, group.group_id, consumer, now_ms)
            continue
        for member in group.members.values():
            restart_session(shard, member, now_ms)
        if len(group.members) > shard.settings.group_size_max:
            # The limit was lowered: who joins too late is refused.
            prepare(shard, group, decision)
    shard.deadlines.start(shard.retention_timer, now_ms + shard.settings.offsets_retention_check_interval_ms)
    return decision.outcome()
