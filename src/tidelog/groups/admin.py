"""ListGroups (key 16), v0-v5; DescribeGroups (key 15), v0-v6; DeleteGroups (key 42), v0-v2.

Such requests concern groups of many shards: each command answers for its own shard or for one group, and the edge puts
the parts together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import State
from tidelog.groups.emptiness import is_empty, tombstones
from tidelog.groups.records import Record, offset_tombstone
from tidelog.groups.shard import Group, GroupShard
from tidelog.machine.runtime import Result
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.delete_groups import DeletableGroupResult
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tidelog.wire.messages.list_groups import ListedGroup

CLASSIC_TYPE: Final = "classic"
CONSUMER_TYPE: Final = "consumer"
# From this version on an unknown group is an error; before, it is dead.
NOT_FOUND_VERSION: Final = 6


def list_groups(
    shard: GroupShard, states: Iterable[str] = (), types: Iterable[str] = ()
) -> Result[Record, list[ListedGroup]]:
    """The groups of a shard, all or those in some states and of some types, which are named in any case."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.strip().lower() for kind in types}
    listed = [_listed(group) for group in shard.groups.values()]
    return Result(
        (),
        [
            group
            for group in listed
            if (not wanted_states or group.group_state.lower() in wanted_states)
            and (not wanted_types or group.group_type.lower() in wanted_types)
        ],
    )


def describe_group(shard: GroupShard, group_id: str, version: int) -> Result[Record, DescribedGroup]:
    """One classic group: its state, members, and what each of them has; metadata only when it is stable."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        problem = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        return Result((), _unknown(group_id, problem, version))
    name = group.protocol_name if group.state is State.STABLE else None
    members = [
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=b"" if name is None else member.metadata(name),
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=name or "",
        members=members,
    )
    return Result((), described)


def delete_group(shard: GroupShard, group_id: str) -> Result[Record, DeletableGroupResult]:
    """Delete a group that has no members, with all its offsets."""
    group = shard.groups.get(group_id)
    if group is None:
        return Result((), DeletableGroupResult(group_id, ErrorCode.GROUP_ID_NOT_FOUND))
    if not is_empty(group):
        return Result((), DeletableGroupResult(group_id, ErrorCode.NON_EMPTY_GROUP))
    records: list[Record] = [
        offset_tombstone(group_id, topic, partition) for topic, partition in shard.offsets.partitions_of(group_id)
    ]
    records += tombstones(group)
    return Result(records, DeletableGroupResult(group_id), atomic=False)


def _listed(group: Group) -> ListedGroup:
    kind = CLASSIC_TYPE if isinstance(group, ClassicGroup) else CONSUMER_TYPE
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, kind)


def _unknown(group_id: str, problem: str, version: int) -> DescribedGroup:
    if version < NOT_FOUND_VERSION:
        return DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=problem,
        group_id=group_id,
        group_state=State.DEAD.value,
    )
