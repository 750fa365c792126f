"""What passes between the edge and the commands on groups.

The edge hands over who asks and gets back, in a `Result`, records to write and replies to give once they are committed.
A reply goes to the waiter of the call it answers: JoinGroup and SyncGroup answer later, so the result of one call may
hold replies to many others and none to its own. A waiter is whatever the edge likes; it is only passed back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tidelog.groups.records import Record
from tidelog.machine.runtime import Result
from tidelog.wire.schema import Response

Waiter: TypeAlias = Any


class Caller(NamedTuple):
    """Who asks, in which version of the request, and to whom the answer goes."""

    waiter: Waiter
    version: int
    client_id: str = ""
    client_host: str = ""


class Reply(NamedTuple):
    """An answer and whom it is for. Each waiter gets one, if not from its own call then from a later one."""

    waiter: Waiter
    response: Response


Outcome: TypeAlias = Result[Record, Sequence[Reply]]


@dataclass(slots=True)
class Decision:
    """What one command has decided so far."""

    now_ms: int
    records: list[Record] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    def reply(self, caller: Caller, response: Response) -> None:
        self.replies.append(Reply(caller.waiter, response))

    def outcome(self) -> Outcome:
        return Result(self.records, self.replies)


def answer(caller: Caller, response: Response) -> Outcome:
    """The outcome of a command that writes nothing and answers its caller at once."""
    return Result((), (Reply(caller.waiter, response),))
