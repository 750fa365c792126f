"""One command on a transactional id on its way to a reply.

Some are given again: with a fresh producer id, or when the markers of a transaction that ends are written. So a client
that ends a transaction and starts the next, or takes over an id, is answered when it can go on, and need not ask again
and again; and who was told of a commit finds it everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, cast

from tidelog.machine.runtime import Result
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import ProducerId
from tidelog.transactions.calls import Again, Ending, Outcome, Step
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.shard import TransactionShard

ReplyT = TypeVar("ReplyT")
# A command gets the shard, a fresh producer id when it has asked for one, and the time.
Command = Callable[[TransactionShard, ProducerId | None, int], Outcome[ReplyT]]


class Host(Protocol):
    """What a request needs of the shard's host."""

    @property
    def now_ms(self) -> Callable[[], int]: ...

    @property
    def take_producer_id(self) -> Callable[[Callable[[ProducerId | ProtocolError], None]], None]: ...

    def ask(
        self,
        query: Callable[[TransactionShard], Result[TransactionRecord, ReplyT]],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None: ...

    def is_ending(self, transactional_id: str) -> bool: ...
    def deliver(self, ending: Ending, request: TransactionRequest[Any] | None = None) -> bool: ...
    def wait(self, transactional_id: str, request: TransactionRequest[Any]) -> None: ...


class TransactionRequest(Generic[ReplyT]):
    __slots__ = ("_answer", "_command", "_has_reply", "_host", "_may_wait", "_reply", "_transactional_id")

    def __init__(
        self,
        host: Host,
        transactional_id: str,
        command: Command[ReplyT],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        self._host = host
        self._transactional_id = transactional_id
        self._command = command
        self._answer = answer
        # What it is answered once the markers are written; None when the command is to be given again then.
        self._reply: ReplyT | None = None
        self._has_reply = False
        self._may_wait = True

    def run(self, fresh_id: ProducerId | None) -> None:
        self._host.ask(lambda shard: self._command(shard, fresh_id, self._host.now_ms()), self._stepped)

    def ended(self) -> None:
        """The markers that it waited for are written."""
        if self._has_reply:
            self._answer(cast(ReplyT, self._reply))
        else:
            self.run(None)

    def give_up(self, error: ProtocolError) -> None:
        """There will be no more markers from here. An end that was decided is one all the same: a retry finds it."""
        self._answer(error)

    def _stepped(self, outcome: Step[ReplyT] | ProtocolError) -> None:
        if isinstance(outcome, ProtocolError):
            if outcome.code is not ErrorCode.CONCURRENT_TRANSACTIONS or not self._may_wait:
                self._answer(outcome)
            elif self._host.is_ending(self._transactional_id):
                self._wait()
            else:
                # It ended while the refusal waited to be safe: nobody would wake us.
                self.run(None)
            return
        reply = outcome.reply
        if reply is Again.WITH_PRODUCER_ID:
            self._host.take_producer_id(self._took)
            return
        if outcome.ending is None:
            assert not isinstance(reply, Again)
            self._answer(reply)
            return
        self._may_wait = False
        if not isinstance(reply, Again):
            self._reply, self._has_reply = reply, True
        if self._host.deliver(outcome.ending, self):
            if self._has_reply:
                self._answer(cast(ReplyT, self._reply))
            else:
                self._host.wait(self._transactional_id, self)

    def _took(self, fresh_id: ProducerId | ProtocolError) -> None:
        if isinstance(fresh_id, ProtocolError):
            # The producer comes again; it does not matter where the block of ids is held up.
            self._answer(ProtocolError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            self.run(fresh_id)

    def _wait(self) -> None:
        """Wait once, and not for long: a partition without a leader may hold markers up for any time."""
        self._may_wait = False
        self._host.wait(self._transactional_id, self)

    def timed_out(self) -> None:
        """The markers take too long: it is told to come again."""
        self._answer(ProtocolError(ErrorCode.CONCURRENT_TRANSACTIONS, "The end of a transaction is under way."))
