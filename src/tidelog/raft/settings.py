"""Timeouts and limits of the quorum, with Apache Kafka's names and defaults where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEVER: Final = 2**63 - 1
# A leader that no majority fetches from resigns after this many fetch timeouts: a little later than its followers begin
# to look for another one, so that a short delay does not end its epoch.
CHECK_QUORUM_NUMERATOR: Final = 3
CHECK_QUORUM_DENOMINATOR: Final = 2
# Observers that have not fetched for so long are forgotten by the leader.
OBSERVER_SESSION_MS: Final = 300_000
# More replicas than this are served, but not described, and their fetches are answered at once instead of waiting.
REPLICAS_TRACKED_MAX: Final = 10_000
# After so many lost elections the time to wait before the next one grows no more.
BACKOFF_DOUBLINGS_MAX: Final = 10
BACKOFF_UNIT_MS: Final = 50


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """`controller.quorum.*`."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    # How long a leader may hold a fetch that has nothing to bring.
    fetch_wait_max_ms: int = 500

    @property
    def check_quorum_ms(self) -> int:
        return self.fetch_timeout_ms * CHECK_QUORUM_NUMERATOR // CHECK_QUORUM_DENOMINATOR

    @property
    def begin_epoch_ms(self) -> int:
        """How often a leader makes itself known to voters that do not fetch."""
        return self.fetch_timeout_ms // 2
