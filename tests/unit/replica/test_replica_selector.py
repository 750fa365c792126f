from __future__ import annotations

from uuid import UUID

import pytest

from harness.leaders import NoDisk
from harness.logs import append, new_log
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName
from tidelog.model.topic_settings import topic_defaults
from tidelog.replica.in_sync import InSync
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.selector import RackAwareSelector

RACKS = {1: "a", 2: "b", 3: "b", 4: "c"}


def leader() -> PartitionLeader:
    """Broker 1 leads; 2 has everything, 3 less, 4 is not in sync."""
    log = new_log(SimulatedFiles(), SimulatedClock(), "/log")
    for _ in range(10):
        append(log, b"x")
    in_sync = InSync(NodeId(1), 30_000, {})
    replicas = tuple(map(NodeId, (1, 2, 3, 4)))
    in_sync.lead(LeaderEpoch(0), 0, replicas, replicas[:3], Offset(0), 0)
    for node, end in ((2, 10), (3, 5), (4, 10)):
        in_sync.fetched(NodeId(node), 7, Offset(end), Offset(1), Offset(10), 1)
    return PartitionLeader(
        topic=TopicName("tides"),
        topic_id=UUID(int=1),
        index=PartitionIndex(0),
        log=log,
        config=topic_defaults({}),
        epoch=LeaderEpoch(0),
        in_sync=in_sync,
        high_watermark=Offset(0),
        on_staged=lambda _: None,
        disk=NoDisk(),
    )


@pytest.mark.parametrize(
    ("rack", "offset", "chosen"),
    [
        ("a", 3, -1),  # The leader is near.
        ("b", 3, 2),  # The one of the two that has more.
        ("b", 7, 2),
        ("b", 0, -1),  # Nobody near has it any more.
        ("c", 3, -1),  # Near, but not in sync.
        ("nowhere", 3, -1),
    ],
)
def test_a_consumer_reads_from_its_own_rack_where_that_has_what_it_wants(rack: str, offset: int, chosen: int) -> None:
    selector = RackAwareSelector(NodeId(1), lambda node: RACKS.get(node))
    assert selector(leader(), rack, Offset(offset)) == chosen
