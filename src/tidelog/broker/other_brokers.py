"""The other brokers of the cluster, by their id: where they are is looked up in the metadata for every request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.broker.peers import REQUEST_TIMEOUT_MS, Peer, PeerFailed, Peers
from tidelog.env.network import Timers
from tidelog.metadata.image import ClusterImage
from tidelog.model.ids import NodeId
from tidelog.model.listeners import Address
from tidelog.wire.schema import Request


class OtherBrokers:
    def __init__(self, image: Callable[[], ClusterImage], listener: str, peers: Peers, timers: Timers) -> None:
        self._image = image
        self._listener = listener
        self._peers = peers
        self._timers = timers

    def peer(self, node: NodeId, purpose: str) -> Peer | None:
        """The connection to a broker; None while nobody knows where it is."""
        broker = self._image().brokers.get(node)
        if broker is None:
            return None
        point = broker.endpoints.get(self._listener) or next(iter(broker.endpoints.values()), None)
        return None if point is None else self._peers.to(Address(point.host, point.port), purpose)

    def send(
        self,
        node: NodeId,
        purpose: str,
        request: Request,
        answer: Callable[[Any], None],
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """Ask a broker; `answer` gets its response, or PeerFailed, once and later."""
        peer = self.peer(node, purpose)
        if peer is None:
            self._timers.call_soon(lambda: answer(PeerFailed(f"broker {node} is not known", sent=False)))
        else:
            peer.send(request, answer, timeout_ms=timeout_ms)
