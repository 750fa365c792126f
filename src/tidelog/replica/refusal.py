"""Why a leader takes nothing from producers at present, whatever they send. Known to it before a request comes."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.model.errors import ErrorCode


class Refusal(NamedTuple):
    """The answer to every batch."""

    code: ErrorCode
    message: str


OFFLINE: Final = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the log directory of this partition is offline")
READ_ONLY: Final = Refusal(ErrorCode.POLICY_VIOLATION, "this partition was restored from an archive and is read-only")
