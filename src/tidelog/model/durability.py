"""The two promises that a broker can make about what it acknowledges, in Kafka's own settings.

`page-cache` is Apache Kafka's default: records are safe from a dying process, and from a dying machine by their
replicas. `fsync`: they are on the disk before they are acknowledged or readable; producers that wait share each sync.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PAGE_CACHE: Final = "page-cache"
FSYNC: Final = "fsync"

# Settings of the broker that topics inherit, internal ones too. A topic's own flush.messages has the last word.
DURABILITIES: Final[Mapping[str, Mapping[str, str]]] = {
    PAGE_CACHE: {},
    FSYNC: {"log.flush.interval.messages": "1"},
}


def durability_properties(durability: str) -> Mapping[str, str]:
    """The settings that keep a promise. Raises ValueError for one that is not known."""
    if durability not in DURABILITIES:
        raise ValueError(f"durability is {' or '.join(DURABILITIES)}, not {durability!r}")
    return DURABILITIES[durability]
