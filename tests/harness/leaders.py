"""Leaders of partitions without a broker around them: what a test needs to stage and write batches."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from harness.logs import NOON_MS
from tidelog.log.errors import LogWriteFailed
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName
from tidelog.model.topic_settings import topic_config, topic_defaults
from tidelog.replica.disk import Replica
from tidelog.replica.in_sync import InSync
from tidelog.replica.leader import PartitionLeader


class NoDisk:
    """A disk of which nothing is asked."""

    def sync_due(self, replica: Replica) -> None: ...
    def sync_later(self, replica: Replica, delay_ms: int) -> None: ...
    def write_failed(self, replica: Replica, failure: LogWriteFailed) -> None: ...


def lone_leader(
    log: PartitionLog, epoch: LeaderEpoch, on_staged: Callable[[PartitionLeader], None] = lambda _: None
) -> PartitionLeader:
    """Broker 1 has the only replica."""
    in_sync = InSync(NodeId(1), 30_000, {})
    in_sync.lead(epoch, 0, (NodeId(1),), (NodeId(1),), log.end_offset, NOON_MS)
    return PartitionLeader(
        topic=TopicName("tides"),
        topic_id=UUID(int=1),
        index=PartitionIndex(0),
        log=log,
        config=topic_config(topic_defaults({}), {}),
        epoch=epoch,
        in_sync=in_sync,
        high_watermark=Offset(0),
        on_staged=on_staged,
        disk=NoDisk(),
    )
