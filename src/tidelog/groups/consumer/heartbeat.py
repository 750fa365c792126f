"""ConsumerGroupHeartbeat (key 68), v0-v1 (KIP-848; v1: KIP-1082 and patterns): join, stay, change and leave.

A heartbeat may change the member, then the group's epoch, then the target assignment, then what the member has; each of
these writes its records. One that changes nothing writes nothing and costs the same in a group of any size.
"""

from __future__ import annotations

from typing import Final

from tidelog.groups.calls import Caller, Decision, Outcome, answer
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.consumer.assignment import Assignment, as_lists, assignment_of, within
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.leave import leave
from tidelog.groups.consumer.member import JOINING, LEFT, LEFT_FOR_A_WHILE, ConsumerMember
from tidelog.groups.consumer.migration import upgraded
from tidelog.groups.consumer.patterns import compile_pattern
from tidelog.groups.consumer.progress import advance, replace_static
from tidelog.groups.consumer.sessions import heartbeat_interval_ms, restart_session
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.consumer_group_heartbeat import (
    Assignment as AssignmentResponse,
)
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

# From this version on a member makes its own id.
OWN_MEMBER_ID_VERSION: Final = 1
NOT_GIVEN: Final = -1


def consumer_heartbeat(
    shard: GroupShard, request: ConsumerGroupHeartbeatRequest, caller: Caller, now_ms: int
) -> Outcome:
    """Join with epoch 0, stay with the epoch last heard, leave with -1, or -2 for a static member that comes back."""
    decision = Decision(now_ms)
    try:
        _check_request(shard, request, caller.version)
        if request.member_epoch in (LEFT, LEFT_FOR_A_WHILE):
            response = leave(shard, request, decision)
        else:
            response = _heartbeat(shard, request, caller, decision)
    except ProtocolError as error:
        return answer(caller, ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=str(error)))
    decision.reply(caller, response)
    return decision.outcome()


def _check_request(shard: GroupShard, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    epoch = request.member_epoch
    if version >= OWN_MEMBER_ID_VERSION or epoch > 0 or epoch == LEFT:
        _check_given("MemberId", request.member_id)
    _check_given("GroupId", request.group_id)
    _check_given("InstanceId", request.instance_id)
    _check_given("RackId", request.rack_id)
    if epoch == JOINING:
        if request.rebalance_timeout_ms == NOT_GIVEN:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == LEFT_FOR_A_WHILE and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEFT_FOR_A_WHILE:
        raise _invalid("MemberEpoch is invalid.")
    known = shard.settings.consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in known:
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(known)}.",
        )


def _heartbeat(
    shard: GroupShard, request: ConsumerGroupHeartbeatRequest, caller: Caller, decision: Decision
) -> ConsumerGroupHeartbeatResponse:
    joining = request.member_epoch == JOINING
    group = _group(shard, request.group_id, joining, decision)
    size_max = shard.settings.consumer_group_size_max
    if len(group.members) >= size_max and request.member_id not in group.members:
        raise ProtocolError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )
    owned = None if request.topic_partitions is None else assignment_of(request.topic_partitions)
    before = _member(shard, group, request, joining, owned, decision)
    wanted = _updated(before, request, caller)
    if wanted.pattern is not None and wanted.pattern != before.pattern and wanted.pattern not in group.resolved:
        compile_pattern(wanted.pattern)
    after = advance(shard, group, before, wanted, owned, decision)
    restart_session(shard, group.group_id, after, decision.now_ms)
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(shard, group.group_id),
    )
    # A member that says all there is to say asks for all there is to know.
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    full = subscribes and request.rebalance_timeout_ms != NOT_GIVEN and owned is not None
    if joining or full or after.assigned != before.assigned:
        response.assignment = AssignmentResponse(as_lists(after.assigned, TopicPartitions))
    return response


def _group(shard: GroupShard, group_id: str, joining: bool, decision: Decision) -> ConsumerGroup:
    """The group, or a new one for who joins; one that does not exist yet comes to be when the records are replayed."""
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is None:
        if not joining:
            raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return ConsumerGroup(group_id)
    assert isinstance(group, ClassicGroup)
    if not joining:
        raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    return upgraded(shard, group, decision)


def _member(
    shard: GroupShard,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    joining: bool,
    owned: Assignment | None,
    decision: Decision,
) -> ConsumerMember:
    """The member that speaks, as it was before; a newcomer is blank."""
    member_id = request.member_id or str(shard.entropy.uuid())
    if request.instance_id is not None:
        return _static_member(group, request, member_id, joining, owned, decision)
    member = group.members.get(member_id)
    if member is None:
        if not joining:
            raise ProtocolError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
            )
        return ConsumerMember(member_id)
    _check_epoch(member, request.member_epoch, owned)
    return member


def _static_member(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    joining: bool,
    owned: Assignment | None,
    decision: Decision,
) -> ConsumerMember:
    instance_id = request.instance_id
    holder = group.static_member(instance_id)
    if not joining:
        if holder is None:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        check_instance(holder, member_id)
        _check_epoch(holder, request.member_epoch, owned)
        return holder
    if holder is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if holder.classic is None and holder.epoch != LEFT_FOR_A_WHILE:
        # The place is free only when its holder has left for a while, or its session has ended.
        raise ProtocolError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is"
            f" owned by {holder.member_id} member.",
        )
    return replace_static(group, holder, member_id, decision)


def check_instance(holder: ConsumerMember, member_id: str) -> None:
    """Whether a member is the one that holds its instance id now."""
    if holder.member_id != member_id:
        raise ProtocolError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {holder.instance_id} was fenced by member {holder.member_id}.",
        )


def _check_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """A member must be in the epoch that it was told; if an answer was lost, in the one before, with nothing extra."""
    if epoch in (JOINING, member.epoch):
        return
    if epoch == member.previous_epoch and epoch < member.epoch and owned is not None and within(owned, member.assigned):
        return
    relation = "greater" if epoch > member.epoch else "smaller"
    raise ProtocolError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _updated(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """The member with what the request says of it; what is not given stays."""
    changes: dict[str, object] = {}
    if request.instance_id is not None and request.instance_id != member.instance_id:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None and request.rack_id != member.rack_id:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms not in (NOT_GIVEN, member.rebalance_timeout_ms):
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None and request.server_assignor != member.assignor:
        changes["assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        changes["topics"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        # An empty pattern ends the subscription by pattern.
        changes["pattern"] = request.subscribed_topic_regex or None
    if (caller.client_id, caller.client_host) != (member.client_id, member.client_host):
        changes |= {"client_id": caller.client_id, "client_host": caller.client_host}
    if member.classic is not None:
        changes["classic"] = None
    return member.changed(**changes) if changes else member


def _check_given(name: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, message)
