"""Errors of a transaction coordinator, and those of its log, as clients of each version know them."""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import ErrorCode, ProtocolError

# What a failed write means to a producer: another coordinator, or this one a little later, will do.
WRITE_ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


def error_code(outcome: object, version: int, first_version_with_fenced: int) -> ErrorCode:
    """What a client of this version is told: NONE unless the outcome is an error."""
    if not isinstance(outcome, ProtocolError):
        return ErrorCode.NONE
    code = WRITE_ERRORS.get(outcome.code, outcome.code)
    if code is ErrorCode.PRODUCER_FENCED and version < first_version_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
