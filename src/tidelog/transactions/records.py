"""The records of `__transaction_state` as commands return them and `replay` takes them."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.transactions.transaction import Transaction


class TransactionRecord(NamedTuple):
    """A transactional id and what is known of it now; None forgets it."""

    transactional_id: str
    transaction: Transaction | None
