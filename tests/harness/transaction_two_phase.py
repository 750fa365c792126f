"""Producers whose transactions somebody outside of the broker ends (KIP-939): prepare, decide elsewhere, then end.

The outside coordinator never forgets. A producer that comes back keeps what it finds open, and ends it as was decided:
a transaction that was prepared has the outcome that was written down for it, one that was not is aborted.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.transaction_clients import TIMEOUT_MS, Ended, Life, Program
from harness.transaction_history import Attempt, History, Outcome
from harness.transaction_world import Violation, World
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest

NOTHING_OPEN = (-1, -1)
INIT_VERSION = 6


@dataclass(slots=True)
class Decided:
    """A transaction that was prepared, and its outcome."""

    attempt: Attempt
    # The pair in its records, by which it is recognised.
    pair: tuple[int, int]
    commit: bool


class Outside:
    """What the outside coordinator has written down for each transactional id."""

    def __init__(self) -> None:
        self._runs: dict[str, int] = {}
        self.decided: dict[str, Decided] = {}

    def register(self, transactional_id: str) -> int:
        """A new run of the program: whatever an older one wants to prepare from now on is refused."""
        self._runs[transactional_id] = self._runs.get(transactional_id, 0) + 1
        return self._runs[transactional_id]

    def decide(self, transactional_id: str, run: int, decided: Decided) -> None:
        if self._runs[transactional_id] != run:
            raise Ended
        self.decided[transactional_id] = decided


class TwoPhaseProgram(Program):
    """One run. With no transactions to do it only ends what was left."""

    def __init__(
        self, world: World, history: History, transactional_id: str, *, transactions: int, outside: Outside
    ) -> None:
        super().__init__(world, history, transactional_id, second=True, transactions=transactions)
        self._outside = outside
        self._run = 0

    def init(self) -> Life:
        def request() -> InitProducerIdRequest:
            made = InitProducerIdRequest(self.transactional_id, TIMEOUT_MS)
            made.enable2_pc = made.keep_prepared_txn = True
            return made

        answer = yield from self.ask(request, INIT_VERSION, lambda it: it.error_code)
        self._take(answer)
        # Not before: a run that lost the id to this one must not prepare any more when we look at what it left.
        self._run = self._outside.register(self.transactional_id)
        yield from self._end_what_was_left((answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch))

    def _end_what_was_left(self, ongoing: tuple[int, int]) -> Life:
        decided = self._outside.decided.get(self.transactional_id)
        if ongoing == NOTHING_OPEN:
            if decided is not None:
                self._completed(decided)
            return
        if decided is not None and decided.pair == ongoing:
            yield from self.end(decided.attempt, commit=decided.commit)
            self._completed(decided)
            return
        if decided is not None:
            # Its end was answered, or the transaction after it could not have begun.
            self._completed(decided)
        yield from self.end(Attempt(self.transactional_id, 0), commit=False)

    def _completed(self, decided: Decided) -> None:
        decided.attempt.outcome = Outcome.COMMITTED if decided.commit else Outcome.ABORTED
        self._outside.decided.pop(self.transactional_id, None)

    def finish(self, attempt: Attempt, *, commit: bool) -> Life:
        """Both phases: from here on the outcome is decided, however often everybody dies."""
        decided = Decided(attempt, (self.producer_id, self.epoch), commit)
        self._outside.decide(self.transactional_id, self._run, decided)
        attempt.outcome = Outcome.UNKNOWN if commit else Outcome.ABORTED
        if self.world.random.random() < 0.2:
            yield from self.hang(self.world.random.randint(10, 2 * TIMEOUT_MS))
        yield from self.end(attempt, commit=commit)
        self._completed(decided)

    def may_have_timed_out(self) -> bool:
        return False


def check_nothing_in_doubt(outside: Outside) -> None:
    """Every decision was carried out."""
    for transactional_id, decided in outside.decided.items():
        raise Violation(f"{decided.attempt} of {transactional_id} is still in doubt")
