"""The APIs whose request names one group and is one command on its shard: what each of them does is in `groups/`.

| API | key | versions | |
|---|---|---|---|
| OffsetCommit | 8 | 2-10 | v7: static members (KIP-345). v9: consumer groups (KIP-848). v10: topic ids |
| JoinGroup | 11 | 0-9 | v4: a member gets its id first (KIP-394). v5: static members. v9: assignment may be skipped |
| Heartbeat | 12 | 0-4 | v3: static members |
| LeaveGroup | 13 | 0-5 | v3: several members at once. v5: reasons (KIP-800) |
| SyncGroup | 14 | 0-5 | v3: static members. v5: the protocol is told (KIP-559) |
| OffsetDelete | 47 | 0 | KIP-496 |
| ConsumerGroupHeartbeat | 68 | 0-1 | KIP-848. v1: regular expressions, member ids made by clients |
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.broker.call import Call
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.api import COMMANDS, Command
from tidelog.groups.calls import Caller
from tidelog.groups.refusals import refusal
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tidelog.wire.schema import Request

# Offsets in a transaction have a handler of their own, which first asks the transaction's coordinator.
GROUP_COMMANDS: Final[dict[type[Request], Command]] = {
    request: command for request, command in COMMANDS.items() if request is not TxnOffsetCommitRequest
}


class GroupCommandHandler:
    """Hands a request to the shard of its group; the shard answers the call when it is time."""

    def __init__(self, groups: GroupCoordinator, command: Command) -> None:
        self._groups = groups
        self._command = command

    def __call__(self, call: Call, request: Any) -> None:
        header = call.header
        # The address as Apache Kafka shows it, with a slash before it.
        caller = Caller(call, header.api_version, header.client_id or "", f"/{call.connection.peer_host}")
        self._groups.submit(
            request.group_id,
            lambda shard, now_ms: self._command(shard, request, caller, now_ms),
            lambda error: call.answer(refusal(request, header.api_version, error)),
        )


class HeartbeatHandler:
    """Answers heartbeats, of which there are more than of all else, without making commands of them where it can."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups
        self._usual = GroupCommandHandler(groups, GROUP_COMMANDS[HeartbeatRequest])

    def __call__(self, call: Call, request: HeartbeatRequest) -> HeartbeatResponse | None:
        told = self._groups.sign_of_life(request)
        if told is None:
            self._usual(call, request)
            return None
        return HeartbeatResponse(error_code=told)
