"""What the group APIs have in common: the request becomes a command on the shard of its group, the answer comes back to
the call when the shard says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from tidelog.broker.call import Call
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.calls import Caller, Outcome
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import Response


class NamesAGroup(Protocol):
    group_id: str


RequestT = TypeVar("RequestT", bound=NamesAGroup)


class GroupHandler(Generic[RequestT]):
    """Answers one API whose request names one group."""

    def __init__(
        self,
        groups: GroupCoordinator,
        command: Callable[[GroupShard, RequestT, Caller, int], Outcome],
        refused: Callable[[RequestT, ErrorCode], Response],
    ) -> None:
        self._groups = groups
        self._command = command
        self._refused = refused

    def __call__(self, call: Call, request: RequestT) -> Response | None:
        caller = caller_of(call)
        error = self._groups.submit(
            request.group_id, lambda shard, now_ms: self._command(shard, request, caller, now_ms)
        )
        return None if error is ErrorCode.NONE else self._refused(request, error)


def caller_of(call: Call) -> Caller:
    header = call.header
    # As Apache Kafka shows it: the address with a slash before it.
    return Caller(call, header.api_version, header.client_id or "", f"/{call.connection.peer_host}")
