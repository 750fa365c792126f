"""How much each client may do and how long it must then wait: rates over sliding windows, as in Apache Kafka.

Decides only; `throttling.py` measures requests and holds connections back, `mutation_quotas.py` those that change
topics. A quota is found by user and client id, the most exact first; whoever it binds by name shares one meter, a
default binds each on its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from tidelog.metadata.image import QuotaEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
# Everyone, until clients say who they are.
ANONYMOUS: Final = "ANONYMOUS"
# Meters that nobody was bound by for this long are forgotten, once there are many of them.
METERS_KEPT_MAX: Final = 10_000
METER_IDLE_MS: Final = 3_600_000


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

    def charge(self, bound: float, amount: float, now_ms: int) -> int:
        """Record and say how many milliseconds the client has to pause, so that the rate falls to the bound."""
        self.record(amount, now_ms)
        per_second, window_ms = self.measure(now_ms)
        if per_second <= bound:
            return 0
        return round((per_second - bound) / bound * window_ms)


class Bucket:
    """Permits that come back at the bound's pace until those of all windows are there.

    Whoever asks while some are left gets all it wants: a request may leave a debt, the next one waits until it is paid.
    """

    __slots__ = ("_permits", "_seconds", "used_ms")

    def __init__(self, windows: Windows) -> None:
        self._seconds = windows.number * windows.size_ms / 1000
        # None: nobody took any yet, so it is full, whatever the bound is.
        self._permits: float | None = None
        self.used_ms = 0

    def wait_ms(self, bound: float, now_ms: int) -> int:
        """How long until the debt is paid; 0 when there is none."""
        full = bound * self._seconds
        had = full if self._permits is None else self._permits
        self._permits = min(full, had + bound * (now_ms - self.used_ms) / 1000)
        self.used_ms = now_ms
        return round(max(-self._permits, 0.0) / bound * 1000)

    def charge(self, bound: float, amount: float, now_ms: int) -> int:
        """Take permits, there or not, and say how long the client has to pause."""
        self.wait_ms(bound, now_ms)
        assert self._permits is not None
        self._permits -= amount
        return self.wait_ms(bound, now_ms)


class Meter(Protocol):
    """What a bound is kept with."""

    used_ms: int

    def charge(self, bound: float, amount: float, now_ms: int) -> int: ...


MeterT = TypeVar("MeterT", bound=Meter)


class Limit(NamedTuple, Generic[MeterT]):
    """What binds a client, and its meter."""

    bound: float
    meter: MeterT

    def charge(self, amount: float, now_ms: int) -> int:
        """How many milliseconds the client has to pause after this."""
        return self.meter.charge(self.bound, amount, now_ms)


class Quotas(Generic[MeterT]):
    """One quota of all entities, such as producer_byte_rate."""

    def __init__(self, key: str, windows: Windows, make: Callable[[Windows], MeterT]) -> None:
        self._key = key
        self.windows = windows
        self._make = make
        self._bounds: dict[tuple[Name, Name], float] = {}
        self._meters: dict[tuple[str, str], MeterT] = {}
        # (user, client id) -> what binds it, found once.
        self._found: dict[tuple[str, str], Limit[MeterT] | None] = {}

    @property
    def active(self) -> bool:
        return bool(self._bounds)

    def apply(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Take over what is set now. Meters go on, under the new bounds."""
        self._found.clear()
        self._bounds = {}
        for entity, limits in quotas.items():
            names: dict[str, str | None] = dict(entity.parts)
            place = names.get(USER, ABSENT), names.get(CLIENT_ID, ABSENT)
            # The quotas of addresses are of another kind.
            if self._key in limits and place != (ABSENT, ABSENT):
                self._bounds[place] = limits[self._key]

    def limit(self, user: str, client_id: str) -> Limit[MeterT] | None:
        """What binds a client; None when nothing does."""
        key = user, client_id
        if key in self._found:
            return self._found[key]
        if len(self._found) >= METERS_KEPT_MAX:
            self._forget_idle()
        found = self._found[key] = self._find(user, client_id)
        return found

    def _find(self, user: str, client_id: str) -> Limit[MeterT] | None:
        users: tuple[Name, ...] = (user, None, ABSENT)
        clients: tuple[Name, ...] = (client_id, None, ABSENT)
        for named_user in users:
            for named_client in clients:
                bound = self._bounds.get((named_user, named_client))
                if bound is not None:
                    shared = "" if named_user is ABSENT else user, "" if named_client is ABSENT else client_id
                    meter = self._meters.get(shared)
                    if meter is None:
                        meter = self._meters[shared] = self._make(self.windows)
                    return Limit(bound, meter)
        return None

    def _forget_idle(self) -> None:
        newest_ms = max((meter.used_ms for meter in self._meters.values()), default=0)
        self._meters = {key: meter for key, meter in self._meters.items() if newest_ms - meter.used_ms < METER_IDLE_MS}
        self._found.clear()
