"""DeleteGroups (key 42), v0-v2: groups without members, with their offsets (KIP-229)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.collected import Collected
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.admin import delete_group
from tidelog.model.errors import ProtocolError
from tidelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


class DeleteGroupsHandler:
    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def __call__(self, call: Call, request: DeleteGroupsRequest) -> None:
        names = request.groups_names

        def answer(parts: list[DeletableGroupResult | ProtocolError]) -> None:
            results = [
                DeletableGroupResult(group_id, part.code) if isinstance(part, ProtocolError) else part
                for group_id, part in zip(names, parts, strict=True)
            ]
            call.answer(DeleteGroupsResponse(results=results))

        collected = Collected(len(names), answer)
        for number, group_id in enumerate(names):
            self._ask(group_id, collected, number)

    def _ask(self, group_id: str, collected: Collected[DeletableGroupResult | ProtocolError], number: int) -> None:
        self._groups.ask(group_id, lambda shard: delete_group(shard, group_id), collected.taker(number))
