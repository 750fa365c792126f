"""A controller with brokers, driven by commands whose records are replayed and encoded at once; shared by the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from uuid import UUID

from tidelog.controller import brokers
from tidelog.controller.features import SUPPORTED, bootstrap
from tidelog.controller.state import Controller, Policy
from tidelog.machine.runtime import Result
from tidelog.metadata.codec import decode_record, encode_record
from tidelog.metadata.image import BrokerRegistration, ClusterImage, Endpoint, PartitionRegistration
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.wire.schema import Message

ReplyT = TypeVar("ReplyT")
EPOCH = LeaderEpoch(1)


class CountingEntropy:
    """Ids in the order in which they are asked for."""

    def __init__(self) -> None:
        self.next = 1000

    def uuid(self) -> UUID:
        self.next += 1
        return UUID(int=self.next)


class Desk:
    """A controller at work. `log` holds all it ever wrote."""

    def __init__(self, nodes: Iterable[int] = (1,), policy: Policy = Policy(), racks: dict[int, str] | None = None):
        self.controller = Controller(policy, CountingEntropy())
        self.log: list[Message] = []
        self.now_ms = 0
        self.incarnations = 0
        self.run(bootstrap)
        for node in nodes:
            self.start(node, (racks or {}).get(node))

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def run(self, command: Callable[..., Result[Message, ReplyT]], *args: Any, **options: Any) -> ReplyT:
        """Run a command and replay its records, as they are after a way through the log."""
        result = command(self.controller, *args, **options)
        records = [decode_record(encode_record(record)) for record in result.records]
        if records:
            self.log += records
            self.controller.replay(records, Offset(len(self.log) - 1), EPOCH)
        return result.reply

    def registration(self, node: int, rack: str | None = None) -> BrokerRegistration:
        self.incarnations += 1
        return BrokerRegistration(
            broker_id=NodeId(node),
            epoch=-1,
            incarnation_id=UUID(int=5000 + self.incarnations),
            endpoints={"PLAINTEXT": Endpoint("PLAINTEXT", "localhost", 9090 + node)},
            features=SUPPORTED,
            rack=rack,
            directories=(UUID(int=9000 + node),),
        )

    def start(self, node: int, rack: str | None = None) -> int:
        """Register a broker and let it catch up; gives its epoch."""
        epoch = self.run(brokers.register, self.registration(node, rack), self.now_ms)
        self.beat(node)
        return epoch

    def beat(self, node: int, **wishes: bool) -> brokers.HeartbeatReply:
        return self.run(
            brokers.heartbeat,
            NodeId(node),
            self.image.brokers[NodeId(node)].epoch,
            self.now_ms,
            metadata_offset=self.image.offset,
            **wishes,
        )

    def partition(self, topic: str, index: int = 0) -> PartitionRegistration:
        partition = self.image.partition(topic, index)
        assert partition is not None
        return partition
