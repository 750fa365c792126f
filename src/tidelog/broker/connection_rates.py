"""How often connections may be made: by one address (the quota connection_creation_rate, KIP-612) and in all.

Listeners ask before they take a connection in. Decides only: whoever comes too often is let go by the listener, later.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from tidelog.broker.quotas import METER_IDLE_MS, METERS_KEPT_MAX, Rate, Windows
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import QuotaEntity

IP: Final = "ip"
KEY: Final = "connection_creation_rate"


class ConnectionRates:
    """The rates of one broker, for all its listeners."""

    def __init__(self, windows: Windows, in_all_max: float) -> None:
        self._windows = windows
        self._in_all_max = in_all_max
        self._in_all = Rate(windows)
        # None: the default of addresses that have no quota of their own.
        self._bounds: dict[str | None, float] = {}
        self._rates: dict[str, Rate] = {}

    def apply(self, delta: Delta) -> None:
        if delta.quotas_changed:
            self.bind(delta.after.quotas)

    def bind(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Take over what is set now. Rates go on, under the new bounds."""
        self._bounds = {}
        for entity, limits in quotas.items():
            names: dict[str, str | None] = dict(entity.parts)
            if IP in names and KEY in limits:
                self._bounds[_canonical(names[IP])] = limits[KEY]

    def wait_of(self, host: str, now_ms: int) -> int:
        """How many milliseconds too early this address has come; 0: it may connect, which is counted."""
        if not self._bounds:
            return 0
        host = _canonical(host) or host
        bound = self._bounds.get(host, self._bounds.get(None))
        if bound is None:
            return 0
        rate = self._rates.get(host)
        if rate is None:
            if len(self._rates) >= METERS_KEPT_MAX:
                self._forget_idle(now_ms)
            rate = self._rates[host] = Rate(self._windows)
        wait_ms = self._charge(rate, bound, now_ms)
        if wait_ms:
            # It is not let in, so it does not count.
            rate.record(-1, now_ms)
        return wait_ms

    def pause_after(self, now_ms: int) -> int:
        """Count a connection; how many milliseconds no other should be accepted."""
        return self._charge(self._in_all, self._in_all_max, now_ms)

    def _charge(self, rate: Rate, bound: float, now_ms: int) -> int:
        rate.record(1, now_ms)
        if bound <= 0:
            return self._windows.size_ms
        per_second, window_ms = rate.measure(now_ms)
        if per_second <= bound:
            return 0
        # As in Kafka no longer than one window; and not at all would be no pause.
        return max(min(round((per_second - bound) / bound * window_ms), self._windows.size_ms), 1)

    def _forget_idle(self, now_ms: int) -> None:
        self._rates = {host: rate for host, rate in self._rates.items() if now_ms - rate.used_ms < METER_IDLE_MS}


def _canonical(host: str | None) -> str | None:
    """An address as text in one form, IPv4 inside of IPv6 as IPv4. A name that is no address stays as it is."""
    if host is None:
        return None
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(getattr(address, "ipv4_mapped", None) or address)
