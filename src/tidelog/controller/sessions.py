"""When the controller last heard of each broker. Times only, passed in: not replicated, lost with the leadership.

A new controller hears of nobody yet, so it gives every broker a full session from the moment it first looks. Such a
session keeps nobody out: a broker that was started again meanwhile registers at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.model.ids import NO_OFFSET, NodeId, Offset


@dataclass(slots=True)
class Session:
    """One broker's last sign of life."""

    epoch: int
    heard_ms: int
    # The last metadata record it has applied.
    metadata_offset: Offset = NO_OFFSET
    # Whether the connection that its last sign of life came by is still there.
    connected: bool = True
    # Everyone must have seen this record before a broker that shuts down may go.
    shutdown_offset: Offset = NO_OFFSET


class Sessions:
    """The sessions of all brokers, by id."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[NodeId, Session] = {}

    def touch(self, broker: NodeId, epoch: int, now_ms: int) -> Session:
        """A sign of life; with another epoch it begins a new session."""
        session = self._sessions.get(broker)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker] = Session(epoch, now_ms)
        session.heard_ms = now_ms
        session.connected = True
        return session

    def grant(self, broker: NodeId, epoch: int, now_ms: int) -> None:
        """Time to give a sign of life, for a broker that could not be heard. Nothing says that it is there."""
        session = self._sessions.get(broker)
        if session is None or session.epoch != epoch:
            self._sessions[broker] = Session(epoch, now_ms, connected=False)
        else:
            session.heard_ms = now_ms

    def disconnected(self, broker: NodeId) -> None:
        """Its connection broke. That alone fences nobody, but another incarnation need not wait any more."""
        session = self._sessions.get(broker)
        if session is not None:
            session.connected = False

    def silent_since(self, broker: NodeId, now_ms: int) -> int | None:
        """How long a broker has said nothing, in milliseconds; None for one that was never heard of."""
        session = self._sessions.get(broker)
        return None if session is None else now_ms - session.heard_ms

    def valid(self, broker: NodeId, epoch: int, now_ms: int) -> bool:
        session = self._sessions.get(broker)
        return (
            session is not None
            and session.connected
            and session.epoch == epoch
            and now_ms - session.heard_ms < self.timeout_ms
        )

    def expired(self, brokers: Iterable[tuple[NodeId, int]], now_ms: int) -> list[NodeId]:
        """Those of the brokers, each with its epoch, that were silent for too long; who is so for longest comes first.

        The last one to go is the last member of an ISR: it should be the one that was there last.
        """
        silent = []
        for broker, epoch in brokers:
            session = self._sessions.get(broker)
            if session is None or session.epoch != epoch:
                self.grant(broker, epoch, now_ms)
            elif now_ms - session.heard_ms >= self.timeout_ms:
                silent.append((session.heard_ms, broker))
        return [broker for _, broker in sorted(silent)]

    def all_have_seen(self, offset: Offset, brokers: Iterable[NodeId]) -> bool:
        """Whether each of the brokers has applied the metadata record at an offset."""
        return all(broker in self._sessions and self._sessions[broker].metadata_offset >= offset for broker in brokers)

    def forget(self, broker: NodeId) -> None:
        self._sessions.pop(broker, None)
