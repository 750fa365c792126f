"""DescribeGroups (key 15), v0-v6. v4: static members (KIP-345). v6: an unknown group is an error (KIP-1043)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.collected import Collected
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.admin import describe_group
from tidelog.model import operations
from tidelog.model.errors import ProtocolError
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse


class DescribeGroupsHandler:
    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def __call__(self, call: Call, request: DescribeGroupsRequest) -> None:
        def answer(parts: list[DescribedGroup | ProtocolError]) -> None:
            described = [
                DescribedGroup(part.code, group_id=group_id) if isinstance(part, ProtocolError) else part
                for group_id, part in zip(request.groups, parts, strict=True)
            ]
            if request.include_authorized_operations:
                for group in described:
                    if not group.error_code:
                        group.authorized_operations = operations.OF_GROUP
            call.answer(DescribeGroupsResponse(groups=described))

        collected = Collected(len(request.groups), answer)
        for number, group_id in enumerate(request.groups):
            self._ask(group_id, call.header.api_version, collected, number)

    def _ask(
        self, group_id: str, version: int, collected: Collected[DescribedGroup | ProtocolError], number: int
    ) -> None:
        self._groups.ask(group_id, lambda shard: describe_group(shard, group_id, version), collected.taker(number))
