"""The timers of members of consumer groups: sessions, and the time that they have to give up partitions.

They live beside the groups, by group and member id, since they are not replicated. A timer may outlive its member; its
alarm then finds nobody.
"""

from __future__ import annotations

from typing import Final

from tidelog.groups.consumer.member import ConsumerMember, MemberState
from tidelog.groups.deadlines import Alarm, Timer
from tidelog.groups.shard import GroupShard
from tidelog.metadata.image import ConfigResource, ResourceType

# What may be set for one group, and overrides the settings of the broker.
SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"

# All that may go off for one member.
MEMBER_ALARMS: Final = (
    Alarm.CONSUMER_SESSION,
    Alarm.CONSUMER_REBALANCE,
    Alarm.CONSUMER_JOIN,
    Alarm.CONSUMER_SYNC,
)


def session_timeout_ms(shard: GroupShard, group_id: str) -> int:
    return _group_setting(shard, group_id, SESSION_TIMEOUT, shard.settings.consumer_session_timeout_ms)


def heartbeat_interval_ms(shard: GroupShard, group_id: str) -> int:
    return _group_setting(shard, group_id, HEARTBEAT_INTERVAL, shard.settings.consumer_heartbeat_interval_ms)


def restart_session(shard: GroupShard, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """A sign of life."""
    classic = member.classic
    timeout_ms = session_timeout_ms(shard, group_id) if classic is None else classic.session_timeout_ms
    start(shard, Alarm.CONSUMER_SESSION, group_id, member.member_id, now_ms + timeout_ms)


def watch_revocation(shard: GroupShard, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """From now on a member has the time it asked for to give up partitions; or it has nothing to give up any more."""
    if member.classic is not None:
        return  # It is told by heartbeats to join again, and that has a time of its own.
    if member.state is MemberState.UNREVOKED:
        start(shard, Alarm.CONSUMER_REBALANCE, group_id, member.member_id, now_ms + member.rebalance_timeout_ms)
    else:
        stop(shard, Alarm.CONSUMER_REBALANCE, group_id, member.member_id)


def start(shard: GroupShard, alarm: Alarm, group_id: str, member_id: str, deadline_ms: int) -> None:
    key = (alarm, group_id, member_id)
    timer = shard.member_timers.get(key)
    if timer is None:
        timer = shard.member_timers[key] = Timer(alarm, group_id, member_id)
    shard.deadlines.start(timer, deadline_ms)


def is_running(shard: GroupShard, alarm: Alarm, group_id: str, member_id: str) -> bool:
    timer = shard.member_timers.get((alarm, group_id, member_id))
    return timer is not None and timer.running


def stop(shard: GroupShard, alarm: Alarm, group_id: str, member_id: str) -> None:
    timer = shard.member_timers.pop((alarm, group_id, member_id), None)
    if timer is not None:
        shard.deadlines.stop(timer)


def _group_setting(shard: GroupShard, group_id: str, name: str, default: int) -> int:
    value = shard.image.config(ConfigResource(ResourceType.GROUP, group_id)).get(name)
    return default if value is None else int(value)
