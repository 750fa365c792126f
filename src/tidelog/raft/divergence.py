"""How far two logs agree, found by epochs and never by the high watermark (KIP-101, KIP-595).

A leader checks the position of whoever fetches; a follower that is told where they differ finds where to cut. The
high watermark of a follower lags behind: what it acknowledged beyond it may be committed, and cutting it would lose it.
"""

from __future__ import annotations

from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.raft.ports import EpochEnd, LogView, SnapshotId


def differs(log: LogView, offset: Offset, last_epoch: LeaderEpoch) -> EpochEnd | SnapshotId | None:
    """None when a log that ends at `offset` with a record of `last_epoch` is the beginning of ours.

    Otherwise the end of the newest epoch that both may share, or the snapshot to fetch when that cannot be told any
    more from the log.
    """
    snapshot = log.snapshot
    start = log.start_offset
    if offset < start or (offset == 0 and snapshot is not None and snapshot.end_offset > 0):
        # Whoever has nothing yet is served faster with a snapshot, even while the log still reaches back to 0.
        assert snapshot is not None, "a log that begins later has a snapshot of what was before"
        return snapshot
    if offset == 0:
        return None
    if last_epoch < log.start_epoch or (offset == start and last_epoch != log.start_epoch):
        assert snapshot is not None, "a log that begins later has a snapshot of what was before"
        return snapshot
    end = log.epoch_end(last_epoch)
    if end.epoch != last_epoch or end.end_offset < offset:
        return end
    return None


def cut_at(log: LogView, leaders_end: EpochEnd) -> Offset:
    """Where to cut our log, when the leader's newest epoch up to our last one is `leaders_end`."""
    ours = log.epoch_end(leaders_end.epoch)
    if ours.epoch == leaders_end.epoch:
        return min(ours.end_offset, leaders_end.end_offset)
    return ours.end_offset
