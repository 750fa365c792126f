"""A broker that does nothing but groups: real connection, dispatch, coordinator, leader and log, on a simulated disk.

Its clock stands still until the test moves it, and nothing happens but in `send` and `settle`. So two of them that are
given the same bytes must give the same bytes back, and write the same; one of them may be told not to take the short
way of commits that repeat themselves.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from harness.group_desk import SeededEntropy, cluster
from harness.leaders import lone_leader
from harness.logs import NOON_MS, new_log
from tidelog.broker.connection import Connection
from tidelog.broker.dispatch import Dispatch, serve
from tidelog.broker.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from tidelog.broker.handlers.group_commands import GROUP_COMMANDS, GroupCommandHandler
from tidelog.broker.repeated_commits import RepeatedCommits
from tidelog.broker.turn import Turn
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.metadata.delta import difference
from tidelog.metadata.image import EMPTY
from tidelog.model.broker_settings import BrokerConfig
from tidelog.model.ids import LeaderEpoch
from tidelog.replica.leader import PartitionLeader
from tidelog.wire.frames import FRAME_BYTES_MAX
from tidelog.wire.messages.offset_commit import OffsetCommitRequest

CONFIG = BrokerConfig.from_properties(
    {"log.dirs": "/data", "group.initial.rebalance.delay.ms": "0", "offset.metadata.max.bytes": "20"}
)
MEMORY_BYTES = 1 << 20
# More than all answers of one turn.
ANSWERS_BYTES_MAX = 1 << 20


class _NoTimer:
    def cancel(self) -> None: ...


class _Counted(RepeatedCommits):
    """Notes how many commits took the short way."""

    taken = 0

    def stage(self, *run: Any) -> Any:
        staged = super().stage(*run)
        if staged is not None:
            self.taken += staged[0].count
        return staged


class CommitBroker:
    def __init__(self, topics: dict[str, int], *, short_way: bool) -> None:
        self._soon: list[Callable[[], None]] = []
        self.now_ms = NOON_MS
        self.turn = Turn(self._soon.append, MEMORY_BYTES, lambda: self.now_ms)
        files = SimulatedFiles(seed=1)
        files.make_directory("/data")
        self._log = new_log(files, SimulatedClock(NOON_MS), "/data/groups-0")
        self._epoch = 0
        self._led: dict[str, dict[int, PartitionLeader]] = {}
        self._image = EMPTY
        partitions: Any = self
        topic_creation: Any = None
        self.groups = GroupCoordinator(
            CONFIG, topic_creation, partitions, SeededEntropy(1), lambda: self.now_ms, timers=self
        )
        self.repeats = _Counted(self.groups)
        self.dispatch = Dispatch(
            [serve(request, GroupCommandHandler(self.groups, command)) for request, command in GROUP_COMMANDS.items()],
            self.turn.write_now,
            {OffsetCommitRequest: self.repeats} if short_way else {},
        )
        self.closed: list[str] = []
        ours, self._client = socket.socketpair()
        for end in (ours, self._client):
            end.setblocking(False)
        poller: Any = self
        self.connection = Connection(
            ours,
            "10.0.0.1",
            "PLAINTEXT",
            poller,
            self.turn,
            self.dispatch,
            FRAME_BYTES_MAX,
            lambda _, reason: self.closed.append(reason),
        )
        self.change_topics(topics)
        self.lead()

    @property
    def by_name(self) -> dict[str, dict[int, PartitionLeader]]:
        """The partitions that it leads, as its coordinator sees them."""
        return self._led

    @property
    def leader(self) -> PartitionLeader:
        return self._led[OFFSETS_TOPIC][0]

    def change_topics(self, topics: dict[str, int]) -> None:
        before, self._image = self._image, cluster({**topics, OFFSETS_TOPIC: 1})
        self.groups.apply(difference(before, self._image))
        self.settle()

    def lead(self) -> None:
        """Be the coordinator, from what the log holds."""
        self._epoch += 1
        self._led = {OFFSETS_TOPIC: {0: lone_leader(self._log, LeaderEpoch(self._epoch), self.turn.write)}}
        self.groups.apply(difference(self._image, self._image))
        self.settle()

    def resign(self) -> None:
        """Another broker leads, from this moment of the turn on."""
        for leader in self._led.get(OFFSETS_TOPIC, {}).values():
            leader.resign()
        self._led = {}
        self.groups.apply(difference(self._image, self._image))

    def send(self, data: bytes) -> None:
        """Read requests, as many as come in one piece; they are answered when the turn is settled."""
        self._client.sendall(data)
        self.connection.on_readable()

    def settle(self) -> bytes:
        """Let the turn end; what the client gets."""
        while self._soon:
            self._soon.pop(0)()
        with suppress(BlockingIOError):
            return self._client.recv(ANSWERS_BYTES_MAX)
        return b""

    def written(self) -> bytes:
        """All of the log."""
        piece = self._log.read(self._log.start_offset, 1 << 30, self._log.end_offset)
        return b"" if piece is None else bytes(piece.read())

    def close(self) -> None:
        self.connection.close("the test is over")
        self._client.close()

    # What it is to its parts: the loop's poller and its timers, which never come by themselves.

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None: ...
    def remove_reader(self, fd: int) -> bool:
        return True

    def add_writer(self, fd: int, callback: Callable[[], object]) -> None: ...
    def remove_writer(self, fd: int) -> bool:
        return True

    def call_later(self, delay: float, callback: Callable[[], object]) -> _NoTimer:
        return _NoTimer()
