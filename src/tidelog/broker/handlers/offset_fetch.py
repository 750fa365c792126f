"""OffsetFetch (key 9), v1-v10. v2: all topics. v7: stable offsets (KIP-447). v8: several groups (KIP-709). v9: consumer
groups (KIP-848). v10: topic ids.
"""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.collected import Collected
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.offsets.fetch import fetch_offsets, fetch_response, groups_asked, refuse_group
from tidelog.model.errors import ProtocolError
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponseGroup

Part = OffsetFetchResponseGroup | ProtocolError


class OffsetFetchHandler:
    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def __call__(self, call: Call, request: OffsetFetchRequest) -> None:
        version = call.header.api_version
        asked = groups_asked(request, version)

        def answer(parts: list[Part]) -> None:
            answers = [
                refuse_group(group, part.code) if isinstance(part, ProtocolError) else part
                for group, part in zip(asked, parts, strict=True)
            ]
            call.answer(fetch_response(request, answers, version))

        collected = Collected(len(asked), answer)
        for number, group in enumerate(asked):
            self._ask(group, version, request.require_stable, collected, number)

    def _ask(
        self, group: OffsetFetchRequestGroup, version: int, stable: bool, collected: Collected[Part], number: int
    ) -> None:
        self._groups.ask(
            group.group_id,
            lambda shard: fetch_offsets(shard, group, version, require_stable=stable),
            collected.taker(number),
        )
