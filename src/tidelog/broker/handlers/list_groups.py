"""ListGroups (key 16), v0-v5. v4: filter by state (KIP-518). v5: filter by type (KIP-848)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.collected import Collected
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.admin import list_groups
from tidelog.model.errors import ProtocolError
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


class ListGroupsHandler:
    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def __call__(self, call: Call, request: ListGroupsRequest) -> None:
        hosts = self._groups.hosts

        def answer(parts: list[list[ListedGroup] | ProtocolError]) -> None:
            listed = [group for part in parts if not isinstance(part, ProtocolError) for group in part]
            call.answer(ListGroupsResponse(groups=listed))

        collected = Collected(len(hosts), answer)
        for number, host in enumerate(hosts):
            host.ask(
                lambda shard: list_groups(shard, request.states_filter, request.types_filter), collected.taker(number)
            )
