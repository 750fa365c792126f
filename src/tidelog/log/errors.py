"""What can go wrong with a log: what a reader may cause has an error code, what the disk may cause carries its OSError.

Raised by `log/`, caught by the broker at one place for each of them.
"""

from __future__ import annotations

import errno
from typing import Final

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import Offset

# No room, for everybody or for this user: what was there before is as good as ever.
FULL_DISK_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class OffsetOutOfRange(ProtocolError):
    """An offset before the start or after the end of the log."""

    def __init__(self, offset: Offset, start: Offset, end: Offset) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not within this log, which holds {start} to {end}"
        )


class LogFailed(Exception):
    """The disk refused. The cause is the OSError; the log directory is to go offline unless it is merely full."""

    def __init__(self, what: str, cause: OSError) -> None:
        super().__init__(f"{what}: {cause}")
        self.cause = cause


class LogWriteFailed(LogFailed):
    """Staged batches from `first_lost_offset` on were not written; what came before them is in the log."""

    def __init__(self, what: str, cause: OSError, first_lost_offset: Offset) -> None:
        super().__init__(what, cause)
        self.first_lost_offset = first_lost_offset


class LogFlushFailed(LogFailed):
    """A sync failed. What the disk holds is unknown from here on, so it is never tried again as if nothing happened."""


def is_full_disk(error: Exception) -> bool:
    """Whether only room was missing, so that the same will work later. A failed sync is never harmless."""
    cause = error.cause if isinstance(error, LogFailed) and not isinstance(error, LogFlushFailed) else error
    return isinstance(cause, OSError) and cause.errno in FULL_DISK_ERRORS


class CorruptLog(Exception):
    """Bytes on the disk that cannot be what was written there."""
