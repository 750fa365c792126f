"""Between the protocols: a group changes from classic to consumer and back, empty or with members in it.

An empty group leaves its offsets and becomes another kind. One with members is upgraded when the first member comes
that speaks the consumer protocol, and downgraded when the last of those goes (group.consumer.migration.policy).
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.groups.calls import Decision
from tidelog.groups.classic.answers import join_error, sync_error
from tidelog.groups.classic.group import ClassicGroup, Member
from tidelog.groups.classic.rebalance import prepare, restart_session
from tidelog.groups.classic.states import State
from tidelog.groups.consumer import sessions
from tidelog.groups.consumer.assignment import NOTHING
from tidelog.groups.consumer.embedded import Malformed, read_assignment, subscription_of, version_of, write_assignment
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.member import ClassicSide, ConsumerMember
from tidelog.groups.consumer.records import (
    current_record,
    epoch_record,
    group_tombstones,
    metadata_record,
    target_epoch_record,
    target_record,
)
from tidelog.groups.consumer.subscription import GroupAfter
from tidelog.groups.deadlines import Alarm, Timer
from tidelog.groups.records import group_metadata
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode, ProtocolError


def upgraded(shard: GroupShard, group: ClassicGroup, decision: Decision) -> ConsumerGroup:
    """A classic group as the consumer group that it becomes with these records."""
    decision.records.append(group_metadata(group.group_id, None))
    if group.state is State.EMPTY:
        return ConsumerGroup(group.group_id)
    _check_upgrade(shard, group)
    try:
        consumers = _consumers(shard, group)
    except Malformed:
        raise _cannot_upgrade(group, "the embedded consumer protocol is malformed") from None
    except ProtocolError:
        raise _cannot_upgrade(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default"
            " assignor before re-attempting the upgrade",
        ) from None
    for member in group.members.values():
        # Who waits shall ask again: it will then be a member of the consumer group.
        if member.joining is not None:
            error = join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS, member.joining.version)
            decision.reply(member.joining, error)
        if member.syncing is not None:
            decision.reply(member.syncing, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    return _converted(shard, group, consumers, decision)


def _check_upgrade(shard: GroupShard, group: ClassicGroup) -> None:
    if not shard.settings.consumer_migration_policy.upgrades:
        raise _cannot_upgrade(group, "online upgrade is disabled")
    if not group.is_consumers:
        raise _cannot_upgrade(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > shard.settings.consumer_group_size_max:
        raise _cannot_upgrade(group, "the group size exceeds the consumer group maximum size")


def _consumers(shard: GroupShard, group: ClassicGroup) -> list[ConsumerMember]:
    """The members in the epoch that is their generation, each with what its leader gave it last."""
    consumers = []
    for member in group.members.values():
        subscription = subscription_of(member.metadata(group.protocol_name or member.protocols[0][0]))
        consumers.append(
            ConsumerMember(
                member_id=member.member_id,
                epoch=group.generation,
                previous_epoch=group.generation,
                instance_id=member.instance_id,
                rack_id=subscription.rack_id or None,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                topics=frozenset(subscription.topics),
                assigned=read_assignment(member.assignment, shard.image),
                classic=ClassicSide(member.session_timeout_ms, member.protocols),
            )
        )
    return consumers


def _converted(
    shard: GroupShard, group: ClassicGroup, consumers: list[ConsumerMember], decision: Decision
) -> ConsumerGroup:
    """The group that replaying the records will make, for what this command still has to decide on it."""
    group_id = group.group_id
    converted = ConsumerGroup(group_id)
    converted.epoch = converted.assignment_epoch = group.generation
    for member in consumers:
        converted.put(member)
        converted.target[member.member_id] = member.assigned
        sessions.restart_session(shard, group_id, member, decision.now_ms)
    converted.metadata_hash = GroupAfter(converted, converted.members, shard.image).metadata_hash()
    decision.records += (metadata_record(group_id, member) for member in consumers)
    decision.records.append(epoch_record(group_id, converted.epoch, converted.metadata_hash))
    decision.records += (target_record(group_id, member.member_id, member.assigned) for member in consumers)
    decision.records.append(target_epoch_record(group_id, converted.assignment_epoch))
    decision.records += (current_record(group_id, member) for member in consumers)
    return converted


def can_downgrade(shard: GroupShard, rest: Mapping[str, ConsumerMember]) -> bool:
    """Whether those that remain make a classic group again."""
    return (
        shard.settings.consumer_migration_policy.downgrades
        and 0 < len(rest) <= shard.settings.group_size_max
        and all(member.classic is not None for member in rest.values())
    )


def downgrade(shard: GroupShard, group: ConsumerGroup, rest: Mapping[str, ConsumerMember], decision: Decision) -> None:
    """Those that remain make a classic group, which begins with a rebalance: who went leaves something to share."""
    now_ms = decision.now_ms
    classic = ClassicGroup(group.group_id, State.STABLE, state_since_ms=now_ms, generation=group.epoch)
    for member in rest.values():
        assert member.classic is not None
        classic.add(
            Member(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocols=member.classic.protocols,
                session=Timer(Alarm.SESSION, group.group_id, member.member_id),
            ),
            group.protocol_type,
        )
    classic.protocol_name = classic.select_protocol()
    classic.topics = classic.subscribed_topics()
    for member_id, each in classic.members.items():
        version = version_of(each.metadata(classic.protocol_name))
        each.assignment = write_assignment(group.target.get(member_id, NOTHING), shard.image, version)
        restart_session(shard, each, now_ms)
        for alarm in sessions.MEMBER_ALARMS:
            sessions.stop(shard, alarm, group.group_id, member_id)
    assignments = {each.member_id: each.assignment for each in classic.members.values()}
    value = classic.to_value(assignments, now_ms)
    # A coordinator that takes over before the rebalance would find a stable group in which nobody has what the others
    # left behind. With a generation that no member knows, all of them join again.
    value.generation += 1
    decision.records += group_tombstones(group)
    decision.records.append(group_metadata(group.group_id, value))
    prepare(shard, classic, decision)
    shard.downgraded[group.group_id] = classic


def _cannot_upgrade(group: ClassicGroup, reason: str) -> ProtocolError:
    return ProtocolError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.",
    )
