"""ConsumerGroupDescribe (key 69), v0-v1: groups of the new protocol (KIP-848). v1: which protocol a member speaks."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.broker.collected import Collected
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.consumer.describe import describe_consumer_group
from tidelog.model import operations
from tidelog.model.errors import ProtocolError
from tidelog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


class ConsumerGroupDescribeHandler:
    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def __call__(self, call: Call, request: ConsumerGroupDescribeRequest) -> None:
        def answer(parts: list[DescribedGroup | ProtocolError]) -> None:
            described = [
                DescribedGroup(part.code, part.message, group_id) if isinstance(part, ProtocolError) else part
                for group_id, part in zip(request.group_ids, parts, strict=True)
            ]
            if request.include_authorized_operations:
                for group in described:
                    if not group.error_code:
                        group.authorized_operations = operations.OF_GROUP
            call.answer(ConsumerGroupDescribeResponse(groups=described))

        collected = Collected(len(request.group_ids), answer)
        for number, group_id in enumerate(request.group_ids):
            self._ask(group_id, collected, number)

    def _ask(self, group_id: str, collected: Collected[DescribedGroup | ProtocolError], number: int) -> None:
        self._groups.ask(group_id, lambda shard: describe_consumer_group(shard, group_id), collected.taker(number))
