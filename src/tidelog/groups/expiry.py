"""What happens when a deadline passes: one alarm for each call, so that each sees what the one before it changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.groups.calls import Decision, Outcome
from tidelog.groups.classic import alarms as classic
from tidelog.groups.consumer import alarms as consumer
from tidelog.groups.deadlines import Alarm, Timer
from tidelog.groups.offsets import retention
from tidelog.groups.shard import GroupShard

ALARMS: Final[dict[Alarm, Callable[[GroupShard, Timer, Decision], None]]] = {
    Alarm.SESSION: classic.session_expired,
    Alarm.PENDING_MEMBER: classic.pending_member_expired,
    Alarm.JOIN: classic.join_expired,
    Alarm.SYNC: classic.sync_expired,
    Alarm.CONSUMER_SESSION: consumer.member_expired,
    Alarm.CONSUMER_REBALANCE: consumer.revocation_expired,
    Alarm.CONSUMER_JOIN: consumer.member_expired,
    Alarm.CONSUMER_SYNC: consumer.member_expired,
    Alarm.RETENTION: retention.sweep,
}


def expire(shard: GroupShard, now_ms: int) -> Outcome:
    """Act on the earliest deadline that has passed; nothing when none has. Submit again while one has passed."""
    decision = Decision(now_ms)
    timer = shard.deadlines.pop(now_ms)
    if timer is not None:
        ALARMS[timer.alarm](shard, timer, decision)
    return decision.outcome()
