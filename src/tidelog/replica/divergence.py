"""How far two logs of one partition agree, told by their leader epochs (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

from tidelog.log.epochs import UNKNOWN_EPOCH_END, EpochEnd
from tidelog.log.partition import PartitionLog
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, Offset
from tidelog.wire.messages.fetch import EpochEndOffset


def divergence(log: PartitionLog, epoch: LeaderEpoch, offset: Offset) -> EpochEnd | None:
    """Where a log that has `epoch` just before `offset` parts from this one; None when it does not.

    Raises ProtocolError for an epoch of which this log knows nothing.
    """
    if epoch < 0:
        return None
    end = log.end_offset_for_epoch(epoch)
    if end == UNKNOWN_EPOCH_END:
        raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known of epoch {epoch}")
    return end if end.epoch < epoch or end.end_offset < offset else None


def common_end(log: PartitionLog, diverging: EpochEndOffset) -> Offset:
    """Up to where this log can be the leader's: no further than either of them has the epoch that both know."""
    epoch, end = log.end_offset_for_epoch(LeaderEpoch(diverging.epoch))
    if epoch == NO_EPOCH:
        # Nothing is known here of an epoch that old: what lies beyond the leader's end of it is not the leader's.
        end = Offset(diverging.end_offset)
    elif epoch == diverging.epoch:
        end = Offset(min(end, diverging.end_offset))
    # Else the leader's epoch is unknown here: cut to the end of the one before it, and ask again (KIP-279).
    return Offset(min(end, log.end_offset))
