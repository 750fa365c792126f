"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that speak the classic protocol in a consumer group.

To them the epoch of a member is a generation, and nobody leads: the coordinator assigns. They learn by heartbeats that
they must join again, which is how they give up partitions, and get others (KIP-848, online migration).
"""

from __future__ import annotations

from tidelog.groups.calls import Caller, Decision, Outcome, answer
from tidelog.groups.classic.answers import join_error, sync_error
from tidelog.groups.classic.group import UNKNOWN_MEMBER
from tidelog.groups.classic.join import MEMBER_ID_REQUIRED_VERSION, check_join, protocols_of, rebalance_timeout_of
from tidelog.groups.classic.leave import leave_answer, leaving
from tidelog.groups.classic.subscriptions import CONSUMER, Protocols
from tidelog.groups.classic.sync import check_sync
from tidelog.groups.consumer.embedded import Malformed, partitions_of, subscription_of, version_of, write_assignment
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.leave import fence, known_member
from tidelog.groups.consumer.member import ClassicSide, ConsumerMember, MemberState
from tidelog.groups.consumer.progress import advance, replace_static
from tidelog.groups.consumer.sessions import is_running, restart_session, start, stop
from tidelog.groups.deadlines import Alarm
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def join(shard: GroupShard, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, now_ms: int) -> Outcome:
    """Join, or join again; the answer waits for nobody."""
    decision = Decision(now_ms)
    try:
        _join(shard, group, request, caller, decision)
    except ProtocolError as error:
        return answer(caller, join_error(request.member_id, error.code, caller.version))
    return decision.outcome()


def _join(
    shard: GroupShard, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, decision: Decision
) -> None:
    error = check_join(shard.settings, request)
    if error is not ErrorCode.NONE:
        raise ProtocolError(error)
    unknown = request.member_id == UNKNOWN_MEMBER
    instance_id = request.group_instance_id
    member_id = request.member_id
    if unknown:
        member_id = f"{caller.client_id if instance_id is None else instance_id}-{shard.entropy.uuid()}"
    if len(group.members) >= shard.settings.consumer_group_size_max and member_id not in group.members:
        raise ProtocolError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    protocols = protocols_of(request)
    if not _speaks(group, request.protocol_type, protocols):
        raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if unknown and instance_id is None and caller.version >= MEMBER_ID_REQUIRED_VERSION:
        decision.reply(caller, join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED, caller.version))
        return
    try:
        subscription = subscription_of(protocols[0][1])
    except Malformed:
        raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None
    before = _member(group, member_id, instance_id, unknown, decision)
    wanted = before.changed(
        instance_id=instance_id if instance_id is not None else before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        rebalance_timeout_ms=rebalance_timeout_of(request),
        topics=frozenset(subscription.topics),
        pattern=None,
        classic=ClassicSide(request.session_timeout_ms, protocols),
    )
    owned = partitions_of(subscription.owned_partitions, shard.image)
    after = advance(shard, group, before, wanted, owned, decision)
    stop(shard, Alarm.CONSUMER_JOIN, group.group_id, member_id)
    restart_session(shard, group.group_id, after, decision.now_ms)
    start(shard, Alarm.CONSUMER_SYNC, group.group_id, member_id, decision.now_ms + after.rebalance_timeout_ms)
    response = JoinGroupResponse(
        generation_id=after.epoch, protocol_type=CONSUMER, protocol_name=protocols[0][0], member_id=member_id
    )
    decision.reply(caller, response)


def _speaks(group: ConsumerGroup, protocol_type: str, protocols: Protocols) -> bool:
    """Whether someone shares a protocol with all members that speak the classic protocol, as a downgrade would need."""
    spoken = [{name for name, _ in each.classic.protocols} for each in group.members.values() if each.classic]
    return protocol_type == CONSUMER and any(all(name in others for others in spoken) for name, _ in protocols)


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, unknown: bool, decision: Decision
) -> ConsumerMember:
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    holder = group.static_member(instance_id)
    if not unknown:
        return known_member(group, member_id, instance_id)
    return ConsumerMember(member_id) if holder is None else replace_static(group, holder, member_id, decision)


def sync(shard: GroupShard, group: ConsumerGroup, request: SyncGroupRequest, caller: Caller, now_ms: int) -> Outcome:
    """Hear one's assignment."""
    refused = check_sync(request, caller.version)
    if refused is not ErrorCode.NONE:
        return answer(caller, sync_error(refused))
    try:
        member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        name, metadata = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
            raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
            _expect_join(shard, group, member, now_ms)
            raise ProtocolError(ErrorCode.REBALANCE_IN_PROGRESS)
    except ProtocolError as error:
        return answer(caller, sync_error(error.code))
    stop(shard, Alarm.CONSUMER_SYNC, group.group_id, member.member_id)
    restart_session(shard, group.group_id, member, now_ms)
    return answer(
        caller,
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(member.assigned, shard.image, version_of(metadata)),
        ),
    )


def heartbeat(
    shard: GroupShard, group: ConsumerGroup, request: HeartbeatRequest, caller: Caller, now_ms: int
) -> Outcome:
    """A sign of life that learns whether to join again."""
    try:
        member, _ = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    except ProtocolError as error:
        return answer(caller, HeartbeatResponse(error_code=error.code))
    restart_session(shard, group.group_id, member, now_ms)
    # A newer epoch, partitions to give up, or partitions that others have given up: all are had by joining again.
    can_have_more = member.state is MemberState.UNRELEASED and not group.waits_for_others(member)
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED or can_have_more:
        _expect_join(shard, group, member, now_ms)
        return answer(caller, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    return answer(caller, HeartbeatResponse())


def leave(shard: GroupShard, group: ConsumerGroup, request: LeaveGroupRequest, caller: Caller, now_ms: int) -> Outcome:
    """Leave, alone or several at once."""
    decision = Decision(now_ms)
    identities = leaving(request, caller.version)
    gone: dict[str, ConsumerMember] = {}
    errors = []
    for identity in identities:
        try:
            member = _leaver(group, identity)
            gone[member.member_id] = member
            errors.append(ErrorCode.NONE)
        except ProtocolError as error:
            errors.append(error.code)
    if gone:
        fence(shard, group, gone.values(), decision)
    decision.reply(caller, leave_answer(identities, errors, caller.version))
    return decision.outcome()


def _leaver(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    member_id = identity.member_id
    if identity.group_instance_id is not None and member_id == UNKNOWN_MEMBER:
        # An operator removes a static member by its instance id alone.
        holder = group.static_member(identity.group_instance_id)
        member_id = UNKNOWN_MEMBER if holder is None else holder.member_id
    return known_member(group, member_id, identity.group_instance_id)


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicSide]:
    member = known_member(group, member_id, instance_id)
    if member.classic is None:
        raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if member.epoch != generation:
        raise ProtocolError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _expect_join(shard: GroupShard, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    """From the first time that it is told to join again, a member has its rebalance timeout to do so."""
    if not is_running(shard, Alarm.CONSUMER_JOIN, group.group_id, member.member_id):
        deadline_ms = now_ms + member.rebalance_timeout_ms
        start(shard, Alarm.CONSUMER_JOIN, group.group_id, member.member_id, deadline_ms)
