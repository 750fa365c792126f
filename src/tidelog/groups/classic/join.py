"""JoinGroup (key 11), v0-v9, for classic groups. KIP-62 rebalance timeout, KIP-394 member id required, KIP-345 static
members, KIP-814 skipped assignment. The answer comes when the rebalance that the join causes, or falls into, completes.
"""

from __future__ import annotations

from typing import Final

from tidelog.groups.calls import Caller, Decision, Outcome, answer
from tidelog.groups.classic.answers import join_answer, join_error
from tidelog.groups.classic.group import UNKNOWN_MEMBER, ClassicGroup, Member
from tidelog.groups.classic.rebalance import (
    complete_if_all_joined,
    fence,
    prepare,
    rebalance_or_complete,
    restart_session,
    wait_to_join,
)
from tidelog.groups.classic.states import State
from tidelog.groups.classic.subscriptions import Protocols
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.records import group_tombstones
from tidelog.groups.deadlines import Alarm, Timer
from tidelog.groups.records import group_metadata
from tidelog.groups.settings import Settings
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupRequest

# From this version on a member without an id first gets one, and joins with a second request.
MEMBER_ID_REQUIRED_VERSION: Final = 4
# From this version on a static leader that came back need not assign again.
SKIP_ASSIGNMENT_VERSION: Final = 9


def join_group(shard: GroupShard, request: JoinGroupRequest, caller: Caller, now_ms: int) -> Outcome:
    """Join a group, or join again: with new metadata, as the leader, or because a rebalance is on."""
    error = check_join(shard.settings, request)
    if error is not ErrorCode.NONE:
        return _refuse(request.member_id, error, caller)
    decision = Decision(now_ms)
    existing = shard.groups.get(request.group_id)
    created = not isinstance(existing, ClassicGroup)
    if isinstance(existing, ClassicGroup):
        group = existing
    elif request.member_id != UNKNOWN_MEMBER:
        return _refuse(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID, caller)
    else:
        group = ClassicGroup(request.group_id, state_since_ms=now_ms)
    join = _Join(shard, group, request, caller, decision)
    if not _accepts(group, request.member_id, shard.settings.group_size_max):
        _remove_unaccepted(shard, group, request.member_id)
        decision.reply(caller, join_error(UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED, caller.version))
        complete_if_all_joined(shard, group, decision)
    elif not group.speaks(request.protocol_type, join.protocols):
        join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif request.member_id == UNKNOWN_MEMBER:
        join.newcomer()
    else:
        join.known()
    if created and (group.members or group.pending):
        # The record of a group without a generation, so that a group that is listed is one that is written.
        # A consumer group without members makes room for it, and leaves its offsets.
        value = ClassicGroup(group.group_id).to_value({}, now_ms)
        before = group_tombstones(existing) if isinstance(existing, ConsumerGroup) else []
        decision.records[:0] = [*before, group_metadata(group.group_id, value)]
        shard.groups[group.group_id] = group
    return decision.outcome()


class _Join:
    """One JoinGroup request and all it concerns."""

    def __init__(
        self, shard: GroupShard, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, decision: Decision
    ) -> None:
        self.shard = shard
        self.group = group
        self.request = request
        self.caller = caller
        self.decision = decision
        self.protocols = protocols_of(request)
        self.rebalance_timeout_ms = rebalance_timeout_of(request)

    def refuse(self, error: ErrorCode) -> None:
        self.decision.reply(self.caller, join_error(self.request.member_id, error, self.caller.version))

    def newcomer(self) -> None:
        """Someone without a member id: a static member may have a place, all others get an id."""
        instance_id = self.request.group_instance_id
        prefix = self.caller.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{self.shard.entropy.uuid()}"
        if instance_id is not None:
            holder = self.group.static_members.get(instance_id)
            if holder is not None:
                self.return_of_static_member(holder, member_id)
            else:
                self.add(member_id)
        elif self.caller.version >= MEMBER_ID_REQUIRED_VERSION:
            timer = Timer(Alarm.PENDING_MEMBER, self.group.group_id, member_id)
            self.group.pending[member_id] = timer
            self.shard.deadlines.start(timer, self.decision.now_ms + self.request.session_timeout_ms)
            answered = join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED, self.caller.version)
            self.decision.reply(self.caller, answered)
        else:
            self.add(member_id)

    def known(self) -> None:
        """Someone with a member id: one that was just given out, or a member that joins again."""
        group, request = self.group, self.request
        if request.member_id in group.pending and request.group_instance_id is None:
            self.add(request.member_id)
            return
        error = group.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            self.refuse(error)
            return
        member = group.members[request.member_id]
        unchanged = member.protocols == self.protocols
        if group.state is State.COMPLETING_REBALANCE and unchanged:
            # Most likely the answer to its first request was lost: it gets it once more.
            self._answer_as_is()
        elif group.state is State.STABLE and unchanged and group.leader_id != member.member_id:
            self._answer_as_is()
        else:
            # The leader joins again when topics or partitions changed, which no member's metadata shows.
            group.update(member, self.protocols, self.rebalance_timeout_ms, request.session_timeout_ms)
            wait_to_join(group, member, self.caller, self.decision)
            rebalance_or_complete(self.shard, group, self.decision)

    def add(self, member_id: str) -> None:
        group, request, shard = self.group, self.request, self.shard
        pending = group.pending.pop(member_id, None)
        if pending is not None:
            shard.deadlines.stop(pending)
        member = Member(
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=self.caller.client_id,
            client_host=self.caller.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=self.protocols,
            session=Timer(Alarm.SESSION, group.group_id, member_id),
            is_new=True,
            joining=self.caller,
        )
        if group.state is State.PREPARING_REBALANCE and group.previous is State.EMPTY:
            group.joined_in_delay = True
        group.add(member, request.protocol_type)
        shard.deadlines.start(member.session, self.decision.now_ms + shard.settings.new_member_join_timeout_ms)
        rebalance_or_complete(shard, group, self.decision)

    def return_of_static_member(self, old_id: str, new_id: str) -> None:
        """A static member started again. In a stable group nothing moves, as long as it speaks the same protocol."""
        group, shard, decision = self.group, self.shard, self.decision
        leader_before = group.leader_id
        fence(group, group.members[old_id], decision)
        shard.deadlines.stop(group.members[old_id].session)
        member = group.replace_static(old_id, new_id, Timer(Alarm.SESSION, group.group_id, new_id))
        member.client_id, member.client_host = self.caller.client_id, self.caller.client_host
        group.update(member, self.protocols, self.rebalance_timeout_ms, self.request.session_timeout_ms)
        restart_session(shard, member, decision.now_ms)
        if group.state is State.STABLE and group.select_protocol() == group.protocol_name:
            assignments = {each.member_id: each.assignment for each in group.members.values()}
            group.state_since_ms = decision.now_ms
            group.topics = group.subscribed_topics()
            decision.records.append(group_metadata(group.group_id, group.to_value(assignments, decision.now_ms)))
            if self.caller.version >= SKIP_ASSIGNMENT_VERSION:
                response = join_answer(group, new_id, self.caller.version, skip_assignment=group.leader_id == new_id)
            else:
                # An old client that heard it leads would assign anew, and no other member would learn of that.
                response = join_answer(group, new_id, self.caller.version, leader=leader_before)
            decision.reply(self.caller, response)
            return
        group.wait_to_join(member, self.caller)
        if group.state is State.PREPARING_REBALANCE:
            complete_if_all_joined(shard, group, decision)
        else:
            # Another protocol; or the leader is about to assign to the old id, and the new one would get nothing.
            prepare(shard, group, decision)

    def _answer_as_is(self) -> None:
        self.decision.reply(self.caller, join_answer(self.group, self.request.member_id, self.caller.version))


def _accepts(group: ClassicGroup, member_id: str, size_max: int) -> bool:
    """Whether there is room. While members join, those that have count, so that a lowered limit is kept."""
    match group.state:
        case State.EMPTY | State.DEAD:
            return True
        case State.PREPARING_REBALANCE:
            member = group.members.get(member_id)
            return (member is not None and member.joining is not None) or group.joining_count < size_max
        case _:
            return member_id in group.members or len(group.members) < size_max


def _remove_unaccepted(shard: GroupShard, group: ClassicGroup, member_id: str) -> None:
    pending = group.pending.pop(member_id, None)
    if pending is not None:
        shard.deadlines.stop(pending)
    member = group.remove(member_id)
    if member is not None:
        shard.deadlines.stop(member.session)


def check_join(settings: Settings, request: JoinGroupRequest) -> ErrorCode:
    """What is wrong with a request whatever the group."""
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def rebalance_timeout_of(request: JoinGroupRequest) -> int:
    """Version 0 knows one timeout only."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """The protocols with their metadata copied out of the request's frame; of two with one name the first counts."""
    by_name: dict[str, bytes] = {}
    for protocol in request.protocols:
        by_name.setdefault(protocol.name, bytes(protocol.metadata))
    return tuple(by_name.items())


def _refuse(member_id: str, error: ErrorCode, caller: Caller) -> Outcome:
    return answer(caller, join_error(member_id, error, caller.version))
