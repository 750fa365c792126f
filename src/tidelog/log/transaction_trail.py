"""Following transactions through a log while it is compacted: which batches were aborted, which markers are needed.

Records of aborted transactions go at once. A marker stays as long as a batch of its transaction was met, so that
readers and a recovery still learn how it ended. Called by `log/batch_filter.py` for every batch in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidelog.log.markers import read_marker
from tidelog.log.transaction_index import AbortedTransaction
from tidelog.wire.batch import BatchHeader, Buffer


class TransactionTrail:
    """One walk over the batches of a log."""

    __slots__ = ("_aborted", "_coming", "_committed", "_met", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction], start_offset: int) -> None:
        ordered = sorted((one for one in aborted if one.last_offset >= start_offset), key=lambda one: one.first_offset)
        self._coming = deque(ordered)
        # Aborted transactions that are open where we are, those with a batch we met, producers with other batches.
        self._aborted: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()
        self._committed: set[int] = set()
        # Aborted transactions whose marker stays, since the last time somebody took them.
        self.kept: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether this batch of records belongs to a transaction that was aborted."""
        if not header.is_transactional:
            return False
        self._reach(header.last_offset)
        if header.producer_id in self._aborted:
            self._met.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_needless(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether this control batch ends a transaction of which nothing is left."""
        self._reach(header.last_offset)
        if header.records_count == 0:
            return True  # The marker itself was cleaned away before.
        marker = read_marker(batch)
        if marker is None:
            return False
        if marker.is_commit:
            needless = header.producer_id not in self._committed
            self._committed.discard(header.producer_id)
            return needless
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None or header.producer_id not in self._met:
            return True
        self._met.discard(header.producer_id)
        self.kept.append(aborted)
        return False

    def _reach(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            aborted = self._coming.popleft()
            self._aborted.setdefault(aborted.producer_id, aborted)
