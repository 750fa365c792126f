"""How much each client may do and how long it must then wait: rates over sliding windows, as in Apache Kafka.

Decides only; `throttling.py` measures requests and holds connections back. A quota is found by user and client id, the
most exact first; whoever it binds by name shares one rate, a default binds each on its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.metadata.image import QuotaEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
# Rates that nobody was bound by for this long are forgotten, once there are many of them.
RATES_KEPT_MAX: Final = 10_000
RATE_IDLE_MS: Final = 3_600_000


class _Anyone:
    """Stands for "not named at all", which is not the same as None, "the default"."""


ABSENT: Final = _Anyone()
Name = str | None | _Anyone


class Windows(NamedTuple):
    """quota.window.num and quota.window.size.seconds: how long a rate remembers."""

    number: int
    size_ms: int

    @property
    def seconds_min(self) -> float:
        """Rates count over at least this long, so that a short burst is no offence."""
        return max(self.number - 1, 1) * self.size_ms / 1000


class Rate:
    """Something per second, over the last few windows."""

    __slots__ = ("_samples", "_windows", "used_ms")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        # (when the window began, how much came in it), oldest first.
        self._samples: deque[list[float]] = deque()
        self.used_ms = 0

    def record(self, amount: float, now_ms: int) -> None:
        self.used_ms = now_ms
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._windows.size_ms:
            samples.append([now_ms, 0.0])
        samples[-1][1] += amount

    def measure(self, now_ms: int) -> tuple[float, float]:
        """(per second, over how many milliseconds)."""
        number, size_ms = self._windows
        samples = self._samples
        while samples and now_ms - samples[0][0] >= number * size_ms:
            samples.popleft()
        elapsed_ms = now_ms - samples[0][0] if samples else 0.0
        missing = max(number - 1, 1) - elapsed_ms // size_ms
        if missing > 0:
            elapsed_ms += missing * size_ms
        return sum(amount for _, amount in samples) * 1000 / elapsed_ms, elapsed_ms


class Limit(NamedTuple):
    """A rate and what it may be."""

    bound: float
    rate: Rate

    def charge(self, amount: float, now_ms: int) -> int:
        """Record and say how many milliseconds the client has to pause, so that the rate falls to the bound."""
        self.rate.record(amount, now_ms)
        per_second, window_ms = self.rate.measure(now_ms)
        if per_second <= self.bound:
            return 0
        return round((per_second - self.bound) / self.bound * window_ms)


class Quotas:
    """One quota of all entities, such as producer_byte_rate."""

    def __init__(self, key: str, windows: Windows) -> None:
        self._key = key
        self.windows = windows
        self._bounds: dict[tuple[Name, Name], float] = {}
        self._rates: dict[tuple[str, str], Rate] = {}
        # (user, client id) -> what binds it, found once.
        self._found: dict[tuple[str, str], Limit | None] = {}

    @property
    def active(self) -> bool:
        return bool(self._bounds)

    def apply(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Take over what is set now. Rates go on, under the new bounds."""
        self._found.clear()
        self._bounds = {}
        for entity, limits in quotas.items():
            names: dict[str, str | None] = dict(entity.parts)
            place = names.get(USER, ABSENT), names.get(CLIENT_ID, ABSENT)
            # The quotas of addresses are of another kind.
            if self._key in limits and place != (ABSENT, ABSENT):
                self._bounds[place] = limits[self._key]

    def limit(self, user: str, client_id: str) -> Limit | None:
        """What binds a client; None when nothing does."""
        key = user, client_id
        if key in self._found:
            return self._found[key]
        if len(self._found) >= RATES_KEPT_MAX:
            self._forget_idle()
        found = self._found[key] = self._find(user, client_id)
        return found

    def _find(self, user: str, client_id: str) -> Limit | None:
        users: tuple[Name, ...] = (user, None, ABSENT)
        clients: tuple[Name, ...] = (client_id, None, ABSENT)
        for named_user in users:
            for named_client in clients:
                bound = self._bounds.get((named_user, named_client))
                if bound is not None:
                    shared = "" if named_user is ABSENT else user, "" if named_client is ABSENT else client_id
                    rate = self._rates.get(shared)
                    if rate is None:
                        rate = self._rates[shared] = Rate(self.windows)
                    return Limit(bound, rate)
        return None

    def _forget_idle(self) -> None:
        newest_ms = max((rate.used_ms for rate in self._rates.values()), default=0)
        self._rates = {key: rate for key, rate in self._rates.items() if newest_ms - rate.used_ms < RATE_IDLE_MS}
        self._found.clear()
