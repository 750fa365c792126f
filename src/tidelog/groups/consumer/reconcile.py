"""A member's next step towards its target assignment: first give up, then wait for others, then have it all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.groups.consumer.assignment import NOTHING, Assignment, both, minus, overlap, plus
from tidelog.groups.consumer.member import ConsumerMember, MemberState
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import TopicId


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a member is to go, and what it says of itself."""

    epoch: int
    target: Assignment
    # The topics that it reads now.
    topics: frozenset[TopicId]
    # Its subscription is not what it was, so that it may have to give up partitions even without a new target.
    subscription_changed: bool
    # The partitions that it says it has; None when it does not say.
    owned: Assignment | None
    owner: Callable[[TopicId, int], str | None]


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member as it is to be after this heartbeat."""
    match member.state:
        case MemberState.STABLE:
            if member.epoch != goal.epoch:
                return _advance(member, goal)
            return _drop_unread(member, goal) if goal.subscription_changed else member
        case MemberState.UNREVOKED:
            # What it does not list any more it has given up.
            if not _still_owns(goal, member.revoking):
                return _advance(member, goal)
            return _drop_unread(member, goal) if goal.subscription_changed else member
        case MemberState.UNRELEASED:
            return _advance(member, goal)
        case MemberState.UNKNOWN:
            if goal.owned is None or goal.owned:
                raise ProtocolError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            return _advance(member, goal)


def _advance(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    target = _readable(goal.target, goal)
    keeps = both(member.assigned, target)
    gives_up = minus(member.assigned, keeps)
    if gives_up and _still_owns(goal, gives_up):
        # It stays in its epoch until it has given up.
        return member.changed(state=MemberState.UNREVOKED, assigned=keeps, revoking=gives_up)
    wanted = minus(target, keeps)
    free = {
        topic_id: frozenset(
            partition for partition in partitions if goal.owner(topic_id, partition) in (None, member.member_id)
        )
        for topic_id, partitions in wanted.items()
    }
    gets = {topic_id: partitions for topic_id, partitions in free.items() if partitions}
    state = MemberState.STABLE if gets == wanted else MemberState.UNRELEASED
    return member.at_epoch(goal.epoch, state=state, assigned=plus(keeps, gets), revoking=NOTHING)


def _drop_unread(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Without a new target: give up what the member no longer subscribes to."""
    keeps = _readable(member.assigned, goal)
    if keeps == member.assigned:
        return member
    revoking = plus(member.revoking, minus(member.assigned, keeps))
    if _still_owns(goal, revoking):
        return member.changed(state=MemberState.UNREVOKED, assigned=keeps, revoking=revoking)
    return member.changed(assigned=keeps)


def _readable(assignment: Assignment, goal: Goal) -> Assignment:
    return {topic_id: partitions for topic_id, partitions in assignment.items() if topic_id in goal.topics}


def _still_owns(goal: Goal, partitions: Assignment) -> bool:
    return goal.owned is None or overlap(goal.owned, partitions)
