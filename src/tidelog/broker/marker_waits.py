"""Requests that wait for the markers of a transaction that ends, each for half a second at most.

Kept by the host of a shard. One timer serves all of them: nearly every wait is over in the turn in which it began.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from tidelog.broker.timers import SLACK_SECONDS, Timer, Timers

# How long a request waits for the markers of a transaction that ends, before it is told to come again. So is who asked
# for the end: a producer that hears of success finds all of it readable, and its next transaction would have to wait
# anyway.
MARKERS_WAIT_MS: Final = 500


class Waiting(Protocol):
    def timed_out(self) -> None: ...


WaitingT = TypeVar("WaitingT", bound=Waiting)


class MarkerWaits(Generic[WaitingT]):
    """Who waits for which transactional id."""

    def __init__(self, timers: Timers, now_ms: Callable[[], int]) -> None:
        self._timers = timers
        self._now_ms = now_ms
        self._by_id: dict[str, list[WaitingT]] = {}
        # In the order of their deadlines, since all wait equally long. Some are over.
        self._deadlines: deque[tuple[int, str, WaitingT]] = deque()
        self._timer: Timer | None = None

    def add(self, transactional_id: str, request: WaitingT) -> None:
        """Keep a request until `ended`, or until it has waited for too long and is told so."""
        self._by_id.setdefault(transactional_id, []).append(request)
        self._deadlines.append((self._now_ms() + MARKERS_WAIT_MS, transactional_id, request))
        if self._timer is None:
            self._timer = self._timers.call_later(MARKERS_WAIT_MS / 1000 + SLACK_SECONDS, self._expire)

    def ended(self, transactional_id: str) -> list[WaitingT]:
        """The markers are written: who has waited for them."""
        if not self._by_id:
            return []
        requests = self._by_id.pop(transactional_id, [])
        if not self._by_id:
            self._deadlines.clear()
        return requests

    def give_up(self) -> list[WaitingT]:
        """Everybody, for there will be no more markers from here."""
        waiting = [request for requests in self._by_id.values() for request in requests]
        self._by_id.clear()
        self._deadlines.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return waiting

    def _expire(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, transactional_id, request = self._deadlines.popleft()
            requests = self._by_id.get(transactional_id, [])
            if request in requests:
                requests.remove(request)
                if not requests:
                    del self._by_id[transactional_id]
                request.timed_out()
        if self._deadlines and self._timer is None:
            delay_ms = max(self._deadlines[0][0] - now_ms, 0)
            self._timer = self._timers.call_later(delay_ms / 1000 + SLACK_SECONDS, self._expire)
