"""Groups without members, of either kind: what can be deleted, and what deletes it."""

from __future__ import annotations

from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import State
from tidelog.groups.consumer.records import group_tombstones
from tidelog.groups.records import Record, group_metadata
from tidelog.groups.shard import Group


def is_empty(group: Group) -> bool:
    return group.state is State.EMPTY if isinstance(group, ClassicGroup) else not group.members


def tombstones(group: Group) -> list[Record]:
    """The records that delete an empty group."""
    assert is_empty(group)
    if isinstance(group, ClassicGroup):
        return [group_metadata(group.group_id, None)]
    return group_tombstones(group)
