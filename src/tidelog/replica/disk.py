"""What replicas and the disk under them know of each other. Implemented by `broker/storage.py`."""

from __future__ import annotations

from typing import Protocol

from tidelog.log.errors import LogWriteFailed
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import Offset


class Replica(Protocol):
    """A partition on this broker, led or followed, as far as its disk is concerned."""

    @property
    def log(self) -> PartitionLog: ...
    @property
    def high_watermark(self) -> Offset: ...
    @property
    def last_stable_offset(self) -> Offset: ...
    @property
    def failed(self) -> bool: ...

    def synced(self) -> None: ...
    def fail(self) -> None: ...


class Disk(Protocol):
    """Whom a replica tells what the disk must do, or failed to do."""

    def sync_due(self, replica: Replica) -> None: ...
    def sync_later(self, replica: Replica, delay_ms: int) -> None: ...
    def write_failed(self, replica: Replica, failure: LogWriteFailed) -> None: ...
