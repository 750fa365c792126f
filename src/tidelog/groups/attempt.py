"""One run of a command through the runtime: sees to it that everyone who is owed an answer gets one, and only one.

A caller is either parked in its group or in the replies of one result. When the records of a result are lost, because
the journal refused them or the leadership went before they were committed, its replies are withdrawn: each of those
callers is told to try again. `GroupShard.unload` answers those that are parked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.groups.calls import Outcome, Reply
from tidelog.groups.refusals import withdrawn
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ProtocolError


class Attempt:
    """A command to submit, which remembers the replies that it decided on."""

    __slots__ = ("_command", "_replies")

    def __init__(self, command: Callable[[GroupShard], Outcome]) -> None:
        self._command = command
        self._replies: Sequence[Reply] | None = None

    def __call__(self, shard: GroupShard) -> Outcome:
        outcome = self._command(shard)
        self._replies = outcome.reply
        return outcome

    def replies(self, answer: Sequence[Reply] | ProtocolError) -> Sequence[Reply] | None:
        """What to tell whom, given what the runtime answered; None when the command was refused before it was run."""
        if not isinstance(answer, ProtocolError):
            return answer
        return None if self._replies is None else withdrawn(self._replies, answer.code)
