"""OffsetFetch (key 9), v1-v10. v2: all topics. v7: stable offsets (KIP-447). v8: several groups (KIP-709). v9: consumer
groups (KIP-848). v10: topic ids.
"""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.offsets.fetch import fetch_offsets, fetch_response, groups_asked, refuse_group
from tidelog.model.errors import ProtocolError
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)


class OffsetFetchHandler:
    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def __call__(self, call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse | None:
        asked = groups_asked(request, call.header.api_version)
        if not asked:
            return fetch_response(request, [], call.header.api_version)
        collected = _Collected(call, request, asked)
        for number, group in enumerate(asked):
            self._ask(collected, number, group)
        return None

    def _ask(self, collected: _Collected, number: int, group: OffsetFetchRequestGroup) -> None:
        version, request = collected.call.header.api_version, collected.request
        self._groups.ask(
            group.group_id,
            lambda shard: fetch_offsets(shard, group, version, require_stable=request.require_stable),
            lambda reply: collected.add(number, reply),
        )


class _Collected:
    """The answers of several shards to one request."""

    def __init__(self, call: Call, request: OffsetFetchRequest, asked: list[OffsetFetchRequestGroup]) -> None:
        self.call = call
        self.request = request
        self._asked = asked
        self._answers: list[OffsetFetchResponseGroup | None] = [None] * len(asked)
        self._missing = len(asked)

    def add(self, number: int, reply: OffsetFetchResponseGroup | ProtocolError) -> None:
        if isinstance(reply, ProtocolError):
            reply = refuse_group(self._asked[number], reply.code)
        self._answers[number] = reply
        self._missing -= 1
        if not self._missing:
            answers = [answer for answer in self._answers if answer is not None]
            self.call.answer(fetch_response(self.request, answers, self.call.header.api_version))
