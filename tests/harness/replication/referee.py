"""What must hold of the replicas of one partition, looked at after every step of every broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.log.partition import PartitionLog
from tidelog.model.ids import NodeId, Offset
from tidelog.wire.batch import iter_headers
from tidelog.wire.records import read_records

if TYPE_CHECKING:
    from harness.replication.node import Node
    from harness.replication.world import World

READ_BYTES = 1 << 22


class Violation(AssertionError):
    """A promise that was broken."""


class Entry(NamedTuple):
    """A batch as it was committed."""

    end_offset: Offset
    epoch: int
    crc: int


def batches_of(log: PartitionLog, start: int = 0, up_to: int | None = None) -> dict[Offset, Entry]:
    """The batches of a log by base offset, from the one that holds `start` on."""
    found: dict[Offset, Entry] = {}
    end = log.end_offset if up_to is None else min(Offset(up_to), log.end_offset)
    offset = Offset(max(start, log.start_offset))
    while offset < end:
        piece = log.read(offset, READ_BYTES, end)
        if piece is None:
            break
        for _, header in iter_headers(piece.read()):
            found[Offset(header.base_offset)] = Entry(header.next_offset, header.leader_epoch, header.crc)
            offset = header.next_offset
    return found


class Referee:
    def __init__(self, world: World) -> None:
        self._world = world
        # What any leader's high watermark has passed: it is there for ever, and the same everywhere.
        self.committed: dict[Offset, Entry] = {}
        self.committed_end = Offset(0)
        self._high_watermarks: dict[tuple[NodeId, int, int], Offset] = {}
        self.elections = 0
        self._led: set[tuple[NodeId, int]] = set()
        self._leader_of_epoch: dict[int, NodeId] = {}
        self.commits = 0
        self._acknowledged: dict[bytes, Offset] = {}
        self._observed: dict[Offset, bytes] = {}

    # Brokers

    def look_at(self, node: Node) -> None:
        leader = node.leader()
        if leader is None:
            return
        if (node.node_id, leader.epoch) not in self._led:
            self._led.add((node.node_id, leader.epoch))
            self._elected(node, leader.epoch, leader.log)
        key = (node.node_id, leader.epoch, node.broker_epoch)
        before = self._high_watermarks.get(key, Offset(0))
        after = leader.high_watermark
        if after < before:
            raise Violation(f"the high watermark of node {node.node_id} went back from {before} to {after}")
        if after > leader.log.end_offset:
            raise Violation(f"the high watermark {after} of node {node.node_id} is beyond its end")
        if after > before:
            self._high_watermarks[key] = after
            self._commit(node, leader.log, after)

    def _elected(self, node: Node, epoch: int, log: PartitionLog) -> None:
        """One leader in an epoch, and it has all that is committed."""
        self.elections += 1
        other = self._leader_of_epoch.setdefault(epoch, node.node_id)
        if other != node.node_id:
            raise Violation(f"nodes {other} and {node.node_id} both lead epoch {epoch}")
        if epoch == self._world.partition().leader_epoch:
            self.check_has_committed(f"the leader {node.node_id} of epoch {epoch}", log)

    def check_has_committed(self, who: str, log: PartitionLog) -> None:
        here = batches_of(log, up_to=self.committed_end)
        for offset, entry in self.committed.items():
            if here.get(offset) != entry:
                raise Violation(f"{who} has {here.get(offset)} at offset {offset}, but {entry} is committed")

    def _commit(self, node: Node, log: PartitionLog, high_watermark: Offset) -> None:
        self.commits += 1
        start = min(self.committed_end, high_watermark)
        for offset, entry in batches_of(log, start, high_watermark).items():
            known = self.committed.setdefault(offset, entry)
            if known != entry:
                raise Violation(f"node {node.node_id} commits {entry} at {offset}, where {known} was committed")
        if high_watermark > self.committed_end:
            self.committed_end = high_watermark
            self.check_isr(start)

    def check_isr(self, start: int = 0) -> None:
        """Who is in the ISR, or an eligible leader, has all that is committed: each of them may lead next."""
        partition = self._world.partition()
        wanted = {offset: entry for offset, entry in self.committed.items() if offset >= start}
        for member in (*partition.isr, *partition.eligible_leader_replicas):
            node = self._world.nodes.get(member)
            if node is None or not node.alive or member in self._world.forgetful:
                continue
            log = next(iter(node.directories.partitions().values()), None)
            here = {} if log is None else batches_of(log, start, self.committed_end)
            for offset, entry in wanted.items():
                if here.get(offset) != entry:
                    raise Violation(f"node {member} is in the ISR without the committed {entry} at {offset}")

    # Clients

    def acknowledged(self, value: bytes, offset: Offset) -> None:
        self._acknowledged[value] = offset
        if offset >= self.committed_end:
            raise Violation(f"{value!r} at {offset} was acknowledged, but the ISR has only {self.committed_end}")

    def observed(self, records: bytes) -> Offset | None:
        """What a consumer reads is read by all; gives where it goes on."""
        following = None
        for position, header in iter_headers(records):
            for record in read_records(memoryview(records), position):
                value = self._observed.setdefault(Offset(record.offset), record.value or b"")
                if value != record.value:
                    raise Violation(f"offset {record.offset} was {value!r} for one consumer, is {record.value!r} now")
            following = header.next_offset
        return following

    def finish(self) -> None:
        """Everything is healed: all replicas are the same, and nothing that was promised is missing."""
        leader_log: PartitionLog | None = None
        content: bytes | None = None
        for node in self._world.nodes.values():
            log = next(replica.log for replica in node.partitions.replicas())
            piece = log.read(Offset(0), READ_BYTES, log.end_offset)
            mine = b"" if piece is None else piece.read()
            if content is not None and mine != content:
                raise Violation(f"node {node.node_id} has other bytes than those before it")
            content = mine
            leader_log = log
        assert leader_log is not None and content is not None
        self.check_has_committed("the healed partition", leader_log)
        values = {
            Offset(record.offset): record.value
            for position, _ in iter_headers(content)
            for record in read_records(memoryview(content), position)
        }
        for value, offset in self._acknowledged.items():
            if values.get(offset) != value:
                raise Violation(f"{value!r} was acknowledged at {offset}, where {values.get(offset)!r} is now")
        for offset, value in self._observed.items():
            if values.get(offset) != value:
                raise Violation(f"a consumer read {value!r} at {offset}, where {values.get(offset)!r} is now")
