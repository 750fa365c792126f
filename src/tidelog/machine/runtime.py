"""The replicated state machine runtime: commands in, records to the journal, replies when they are committed.

One runtime drives the controller, and likewise each group and transaction coordinator. A command reads the machine and
returns records and a reply; only `replay` changes the machine. The runtime never waits, writes or sends: the owner of
the journal calls `committed` when records are safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, Offset

RecordT = TypeVar("RecordT")
RecordInT = TypeVar("RecordInT", contravariant=True)
ReplyT = TypeVar("ReplyT")
MachineT = TypeVar("MachineT", bound="Machine[Any]")

# Records written as one batch, which a reader sees whole or not at all.
RECORDS_PER_BATCH_MAX: Final = 10_000


class Result(msgspec.Struct, Generic[RecordT, ReplyT], frozen=True):
    """What a command wants: records to write, and what to answer once they are committed.

    Records of an atomic result are written all or none. One that is not atomic may be cut into several batches, for
    work that may touch any number of partitions and whose every part is right alone, like fencing a broker.
    """

    records: Sequence[RecordT]
    reply: ReplyT
    atomic: bool = True


class Machine(Protocol[RecordInT]):
    """State made of records alone."""

    def replay(self, records: Sequence[RecordInT], offset: Offset, epoch: LeaderEpoch) -> None:
        """Apply records written in `epoch`, of which the last has `offset`."""


class Journal(Protocol[RecordInT]):
    """Where records become durable. Later, for each append, the owner calls `Runtime.committed`."""

    def append(self, records: Sequence[RecordInT], epoch: LeaderEpoch) -> Offset:
        """Write one atomic batch in the leader's epoch and return the offset after its last record.

        Raises ProtocolError when the epoch is over; an OSError goes through to whoever submitted the command.
        """


class Role(Enum):
    """FOLLOWING: others lead, records arrive by `load`. LEADING: commands are taken."""

    FOLLOWING = "following"
    LEADING = "leading"


class Runtime(Generic[MachineT, RecordT]):
    """Runs commands against one machine, in the order they come."""

    def __init__(
        self,
        build: Callable[[], MachineT],
        journal: Journal[RecordT],
        not_leading: ErrorCode = ErrorCode.NOT_CONTROLLER,
    ) -> None:
        self._build = build
        self._journal = journal
        self._not_leading = not_leading
        self.machine = build()
        self.role = Role.FOLLOWING
        self.epoch = NO_EPOCH
        # The offset after the last record the machine has seen, and after the last one that is safe.
        self.end = Offset(0)
        self.committed_end = Offset(0)
        # The offset that must be committed, whom to answer then, and with what.
        self._waiting: deque[tuple[Offset, Callable[[Any], None], Any]] = deque()
        self._running = False
        self._answering = False

    @property
    def waiting(self) -> int:
        """How many replies wait for records to be committed."""
        return len(self._waiting)

    @property
    def is_settled(self) -> bool:
        """Whether this node leads and everything that the machine has seen is safe.

        Then a question that writes nothing may be answered from the machine at once: no answer is owed before it.
        """
        return self.role is Role.LEADING and self.end <= self.committed_end and not self._waiting and not self._running

    def load(self, records: Sequence[RecordT], offset: Offset, epoch: LeaderEpoch) -> None:
        """Replay committed records written by another leader, or found at start-up; `offset` is the last one's."""
        assert self.role is Role.FOLLOWING, "a leader replays its own records only"
        self.machine.replay(records, offset, epoch)
        self.end = self.committed_end = Offset(offset + 1)

    def lead(self, epoch: LeaderEpoch, end: Offset) -> None:
        """Begin to take commands, after everything below `end` was loaded."""
        assert self.role is Role.FOLLOWING and epoch > self.epoch, "each leader has an epoch of its own"
        assert end >= self.end, "nothing loaded can lie beyond the end of the journal"
        self.role = Role.LEADING
        self.epoch = epoch
        self.end = self.committed_end = end
        # Records that are not the machine's, such as the mark of a new leader, take offsets, too: tell it where it is.
        self.machine.replay((), Offset(end - 1), epoch)

    def submit(
        self,
        command: Callable[[MachineT], Result[RecordT, ReplyT]],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        """Run a command now; `answer` gets its reply, or why there is none, when all it read and wrote is committed.

        A refusal waits, too: it may come from a record that is not safe yet. A command that fails by a fault of ours
        raises here and has written nothing.
        """
        if self.role is not Role.LEADING:
            answer(self._refusal())
            return
        assert not self._running, "a command cannot submit another; its answer can"
        outcome: ReplyT | ProtocolError
        self._running = True
        try:
            result = command(self.machine)
            self._write(result)
            outcome = result.reply
        except ProtocolError as error:
            outcome = error
        finally:
            self._running = False
        self._waiting.append((self.end, answer, outcome))
        self._answer_committed()

    def run_at_once(
        self,
        command: Callable[[MachineT], Result[RecordT, ReplyT]],
        append: Callable[[Sequence[RecordT]], Offset],
    ) -> ReplyT:
        """Run a command whose records are safe as soon as `append` has written them; gives its reply.

        Only while `is_settled`: nobody may be overtaken, and nothing that the command reads may still be lost. Raises
        ProtocolError for what the command refuses or `append` cannot write; then nothing has changed.
        """
        assert self._running is False, "a command cannot run another; its answer can"
        self._running = True
        try:
            result = command(self.machine)
            records = result.records
            if records:
                assert len(records) <= RECORDS_PER_BATCH_MAX, "what is written at once fits one batch"
                self.written_at_once(records, append(records))
            return result.reply
        finally:
            self._running = False

    def written_at_once(self, records: Sequence[RecordT], end: Offset) -> None:
        """Replay records that were decided while this `is_settled`, and are written and safe: what `run_at_once` does
        once its command has run."""
        self.machine.replay(records, Offset(end - 1), self.epoch)
        self.end = self.committed_end = end

    def committed(self, end: Offset) -> None:
        """The journal has made everything below `end` safe."""
        if end > self.committed_end:
            self.committed_end = end
            self._answer_committed()

    def resign(self) -> None:
        """Stop leading: who waits is told so, and the machine begins anew, to be loaded from what was committed.

        What was replayed but not committed may be lost with the leadership, so no part of the old machine can be kept.
        """
        if self.role is Role.FOLLOWING:
            return
        self.role = Role.FOLLOWING
        self.machine = self._build()
        self.end = self.committed_end = Offset(0)
        waiting, self._waiting = self._waiting, deque()
        for _, answer, _ in waiting:
            answer(self._refusal())

    def _write(self, result: Result[RecordT, Any]) -> None:
        records = result.records
        assert not result.atomic or len(records) <= RECORDS_PER_BATCH_MAX, "an atomic result fits one batch"
        for first in range(0, len(records), RECORDS_PER_BATCH_MAX):
            batch = records[first : first + RECORDS_PER_BATCH_MAX]
            # Journal first: when it refuses, the machine has not changed.
            self.end = self._journal.append(batch, self.epoch)
            self.machine.replay(batch, Offset(self.end - 1), self.epoch)

    def _answer_committed(self) -> None:
        # A journal may commit inside `append`, an answer may submit the next command: neither may overtake what runs.
        if self._running or self._answering:
            return
        self._answering = True
        try:
            while self._waiting and self._waiting[0][0] <= self.committed_end:
                _, answer, outcome = self._waiting.popleft()
                answer(outcome)
        finally:
            self._answering = False

    def _refusal(self) -> ProtocolError:
        return ProtocolError(self._not_leading, "This node does not lead any more, or not yet.")
