"""What an operator may set for transactions, with Kafka's defaults. The edge fills it from the node's properties."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one coordinator; the comment names the property."""

    # transaction.max.timeout.ms
    timeout_ms_max: int = 900_000
    # transactional.id.expiration.ms, transaction.remove.expired.transaction.cleanup.interval.ms
    id_expiration_ms: int = 7 * 24 * 60 * 60_000
    id_expiration_check_interval_ms: int = 3_600_000
    # transaction.two.phase.commit.enable: whether a producer may ask for transactions that never time out.
    two_phase_commit: bool = False
    # tidelog.two.phase.ids.max: how many transactional ids of one partition may do so. What they leave prepared holds
    # back readers and retention until somebody decides, so there must be a bound.
    two_phase_ids_max: int = 1_000
