"""Watches a simulated cluster and says when a promise is broken: one controller for an epoch, one history of metadata,
one image for each point of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidelog.broker.assembly import BrokerNode
from tidelog.log.directory import LogDirectory
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import BrokerRegistration, ClusterImage
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.schema import Message

if TYPE_CHECKING:
    from harness.nodes.cluster import NodeCluster


class Violation(AssertionError):
    """A promise was broken."""


class Referee:
    def __init__(self, cluster: NodeCluster) -> None:
        self._cluster = cluster
        self._controllers: dict[int, int] = {}
        # The epoch of a record, as the first who applied it saw it.
        self._epochs: dict[int, int] = {}
        self._images: dict[int, ClusterImage] = {}

    def fail(self, message: str) -> None:
        raise Violation(f"seed {self._cluster.world.seed}, {self._cluster.world.now:.3f} s: {message}")

    def watch(self, node_id: int, node: BrokerNode) -> None:
        """Look over the shoulder of a node from its start."""
        publisher = node._publisher
        apply = publisher.apply

        def applied(records: Sequence[Message], offset: Offset, epoch: LeaderEpoch) -> None:
            self._applies(node_id, records, publisher.image.offset, offset, epoch)
            apply(records, offset, epoch)

        publisher.apply = applied  # type: ignore[method-assign]
        publisher.subscribe(lambda delta: self._published(node_id, delta))
        quorum: Any = node._quorum
        open_log = quorum.open

        def opened(directory: LogDirectory) -> ClusterImage:
            image: ClusterImage = open_log(directory)
            store = quorum.store
            store.when_leading(lambda: self._leads(node_id, store._runtime.epoch))
            return image

        quorum.open = opened

    def _leads(self, node_id: int, epoch: int) -> None:
        """A node takes commands in this epoch."""
        other = self._controllers.setdefault(epoch, node_id)
        if other != node_id:
            self.fail(f"nodes {other} and {node_id} are both the controller in epoch {epoch}")

    @property
    def controllers(self) -> int:
        """How many epochs had one."""
        return len(self._controllers)

    def _applies(
        self, node_id: int, records: Sequence[Message], before: Offset, offset: Offset, epoch: LeaderEpoch
    ) -> None:
        if offset <= before:
            self.fail(f"node {node_id} applies offset {offset} after {before}")
        # Nodes may join batches differently: where two end at the same record, they saw the same epoch, and, as
        # `_published` sees, have the same image.
        known = self._epochs.setdefault(offset, epoch)
        if known != epoch:
            self.fail(f"node {node_id} applies a record of epoch {epoch} at {offset}, another one had epoch {known}")

    def _published(self, node_id: int, delta: Delta) -> None:
        image = delta.after
        if image.offset < delta.before.offset:
            self.fail(f"the image of node {node_id} goes back from {delta.before.offset} to {image.offset}")
        known = self._images.setdefault(image.offset, image)
        if known is not image and _told(known) != _told(image):
            self.fail(f"node {node_id} has another image at offset {image.offset} than somebody before")


def _told(image: ClusterImage) -> tuple[object, ...]:
    """All that an image says; the name of a map's type is not part of it."""
    return (
        {key: _plain(value) for key, value in image.brokers.items()},
        {key: (topic.name, dict(topic.partitions)) for key, topic in image.topics_by_id.items()},
        {key: dict(value) for key, value in image.configs.items()},
        dict(image.features),
        {key: dict(value) for key, value in image.quotas.items()},
        image.next_producer_id,
    )


def _plain(broker: BrokerRegistration) -> tuple[object, ...]:
    return (broker.epoch, broker.incarnation_id, dict(broker.endpoints), broker.fenced, broker.in_controlled_shutdown)
