"""The machine of one partition of `__transaction_state`: every transactional id that it keeps.

Commands are functions over a `TransactionShard` that return records and a step (`calls.py`); only `replay` changes it.
Time-outs are data: whoever drives the shard submits `expiry.expire` whenever `next_deadline_ms` has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, Offset
from tidelog.transactions.calls import Ending
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.settings import Settings
from tidelog.transactions.states import ENDING, State
from tidelog.transactions.transaction import (
    EPOCH_BUMPING_VERSION,
    FIRST_VERSION,
    NO_TIMEOUT_MS,
    Producer,
    Transaction,
)


class TransactionShard:
    """All that one coordinator knows. Built anew, and replayed, whenever leadership was lost."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        # The leader epoch of the partition: markers of an older coordinator are refused.
        self.epoch = NO_EPOCH
        # (deadline, transactional id); true only while it is what the transaction says. One for each id: that of a
        # transaction that is over stands for the later one of the next, until it is reached.
        self._deadlines: list[tuple[int, str]] = []
        self._noted: dict[str, int] = {}
        self.next_sweep_ms: int | None = None
        # Whether `next_deadline_ms` may be earlier than it was; taken back by whoever drives the shard.
        self.has_new_deadline = True
        # When acting on a deadline is tried again whose records could not be written; nothing of it is replicated.
        self.retry_ms = 0
        # Those whose transactions have no time-out.
        self.two_phase_ids: set[str] = set()
        # What only this leader knows, until it is written down (by `end.write_down`). Whoever takes over has markers
        # written once more, and learns it from the partitions. Ends that are complete since theirs are written:
        self.completed: dict[str, Transaction] = {}
        # Transactions that have begun where the last one ended: among `transactions`, as if a record said so.
        self.unwritten: set[str] = set()

    def replay(self, records: Sequence[TransactionRecord], offset: Offset, epoch: LeaderEpoch) -> None:
        """Apply records, of which the last has `offset`."""
        self.epoch = epoch
        self.retry_ms = 0
        for transactional_id, transaction in records:
            self.completed.pop(transactional_id, None)
            if self.unwritten:
                self.unwritten.discard(transactional_id)
            if transaction is None:
                self.transactions.pop(transactional_id, None)
                self.two_phase_ids.discard(transactional_id)
                continue
            self.transactions[transactional_id] = transaction
            if transaction.timeout_ms == NO_TIMEOUT_MS:
                self.two_phase_ids.add(transactional_id)
                continue
            if self.two_phase_ids:
                self.two_phase_ids.discard(transactional_id)
            if transaction.state is State.ONGOING:
                self._opened(transactional_id, transaction)

    def begin_unwritten(self, transactional_id: str, transaction: Transaction) -> None:
        """Open a transaction that `partitions.is_found_again` without its record."""
        del self.completed[transactional_id]
        self.unwritten.add(transactional_id)
        self.transactions[transactional_id] = transaction
        if transaction.timeout_ms != NO_TIMEOUT_MS:
            self._opened(transactional_id, transaction)

    def _opened(self, transactional_id: str, transaction: Transaction) -> None:
        noted_ms = self._noted.get(transactional_id)
        if noted_ms is None or transaction.start_ms + transaction.timeout_ms < noted_ms:
            self._note_deadline(transactional_id, transaction.start_ms + transaction.timeout_ms)

    def newest(self, transactional_id: str) -> Transaction | None:
        """The newest that is known of a transactional id; None when it is unknown."""
        return self.completed.get(transactional_id) or self.transactions.get(transactional_id)

    def next_deadline_ms(self) -> int | None:
        """When `expiry.expire` is to be submitted next."""
        deadline_ms = self.next_timeout_ms()
        sweep_ms = self.next_sweep_ms
        if deadline_ms is None or (sweep_ms is not None and sweep_ms < deadline_ms):
            deadline_ms = sweep_ms
        return None if deadline_ms is None else max(deadline_ms, self.retry_ms)

    def next_timeout_ms(self) -> int | None:
        """When the next open transaction times out."""
        heap = self._deadlines
        while heap:
            noted_ms, transactional_id = heap[0]
            transaction = self.transactions.get(transactional_id)
            deadline_ms = None if transaction is None else transaction.deadline_ms
            if deadline_ms == noted_ms:
                return deadline_ms
            heappop(heap)
            if self._noted.get(transactional_id) == noted_ms:
                del self._noted[transactional_id]
                if deadline_ms is not None:
                    self._note_deadline(transactional_id, deadline_ms)
        return None

    def timed_out(self, now_ms: int) -> str | None:
        """A transactional id whose open transaction has timed out."""
        deadline_ms = self.next_timeout_ms()
        return None if deadline_ms is None or deadline_ms > now_ms else self._deadlines[0][1]

    def transaction_of(self, transactional_id: str) -> Transaction:
        """The transaction of an id; INVALID_PRODUCER_ID_MAPPING when there is none."""
        if not transactional_id:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "A transactional id cannot be empty.")
        transaction = self.newest(transactional_id)
        if transaction is None:
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"The transactional id {transactional_id} is not known."
            )
        return transaction

    def ending_of(self, transactional_id: str, transaction: Transaction) -> Ending:
        """The markers that a decided transaction needs."""
        assert transaction.state in ENDING
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        # What was fenced ended by the first version of the protocol.
        bumps = transaction.client_version >= EPOCH_BUMPING_VERSION
        return Ending(
            transactional_id,
            producer,
            transaction.state is State.PREPARE_COMMIT,
            transaction.partitions,
            self.epoch,
            EPOCH_BUMPING_VERSION if bumps else FIRST_VERSION,
        )

    def _note_deadline(self, transactional_id: str, deadline_ms: int) -> None:
        entry = (deadline_ms, transactional_id)
        self._noted[transactional_id] = deadline_ms
        heappush(self._deadlines, entry)
        if self._deadlines[0] is entry:
            self.has_new_deadline = True


def check_producer(transaction: Transaction, asker: Producer) -> None:
    """Refuse whoever is not the producer that the transactional id belongs to now."""
    now = transaction.producer
    if asker == now:
        return
    if asker.id != now.id:
        raise ProtocolError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"The transactional id belongs to producer {now.id}, not {asker.id}."
        )
    if asker.epoch != now.epoch:
        raise ProtocolError(
            ErrorCode.PRODUCER_FENCED, f"Producer {now.id} has epoch {now.epoch}; epoch {asker.epoch} is fenced."
        )
