"""What the handlers of the quorum's own requests share: the driver, the cluster's id, where the leader is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tidelog.broker.raft.driver import QuorumDriver
from tidelog.broker.raft.metadata_log import METADATA_PARTITION
from tidelog.model.ids import NodeId
from tidelog.model.listeners import Address
from tidelog.raft.events import Event

NodeT = TypeVar("NodeT")


@dataclass(frozen=True, slots=True)
class QuorumDesk:
    """Where requests of other nodes go in and the machine's answers come out."""

    driver: QuorumDriver
    cluster_id: str

    def is_ours(self, cluster_id: str | None) -> bool:
        """Whether a request is for this cluster; one that does not say is."""
        return cluster_id is None or cluster_id == self.cluster_id

    def ask(self, event: Callable[[int], Event], answer: Callable[[Any], None]) -> None:
        self.driver.ask(event, answer)

    def endpoint_of(self, leader: NodeId, make: Callable[[int, str, int], NodeT], *, told: bool) -> list[NodeT]:
        """Where the leader is, for an answer whose version has room for it; empty when that is not known."""
        address: Address | None = self.driver.addresses.get(leader) if told and leader >= 0 else None
        return [] if address is None else [make(leader, address.host, address.port)]


def names_metadata(topic: str, partitions: int) -> bool:
    """Whether a request is about the one partition that there is."""
    return topic == METADATA_PARTITION.topic and partitions == 1
