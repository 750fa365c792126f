"""The committed image of the cluster on this node, and those who act when it changes.

Whoever receives committed metadata records (the journal of a quorum of one, a follower of the quorum) calls `apply` or
`install`; replicas, coordinators and caches subscribe. It never decides what to do with a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidelog.metadata.delta import Delta, difference
from tidelog.metadata.image import EMPTY, ClusterImage
from tidelog.metadata.replay import replay
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.schema import Message


class Publisher:
    """Holds the newest committed image. Subscribers are called in the order in which they subscribed."""

    def __init__(self, image: ClusterImage = EMPTY) -> None:
        self.image = image
        self._subscribers: list[Callable[[Delta], None]] = []

    def subscribe(self, act: Callable[[Delta], None]) -> None:
        """From now on call `act` with each change; what is already in the image is the first one."""
        self._subscribers.append(act)
        act(difference(EMPTY, self.image))

    def apply(self, records: Sequence[Message], offset: Offset, epoch: LeaderEpoch) -> None:
        """Apply committed records, of which the last has `offset`."""
        self._publish(replay(self.image, records, offset, epoch))

    def repeat(self) -> None:
        """Call everybody again although nothing has changed: somebody could not do what the last change asked for."""
        self._publish(difference(self.image, self.image))

    def install(self, records: Iterable[Message], offset: Offset, epoch: LeaderEpoch) -> None:
        """Replace all by a snapshot that holds everything up to `offset`."""
        self._publish(difference(self.image, replay(EMPTY, records, offset, epoch).after))

    def _publish(self, delta: Delta) -> None:
        self.image = delta.after
        for act in self._subscribers:
            act(delta)
