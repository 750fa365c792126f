"""The client's own group members in the simulated world of `group_world.py`: machine, program and network around it.

The program polls now and then, is sometimes slow, and does what its member tells it only while it polls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from harness.group_desk import topic_id
from harness.group_world import Call, World
from tidelog.client.core.assignors import assignors_of
from tidelog.client.core.classic_member import ClassicMember
from tidelog.client.core.consumer_member import ConsumerMember
from tidelog.client.core.member import (
    Adopt,
    Answered,
    Ask,
    Effect,
    Event,
    Fail,
    Leave,
    LookUp,
    Polled,
    Release,
    Released,
    Subscribed,
    Tick,
    Unanswered,
)
from tidelog.client.core.options import ConsumerOptions, read_options
from tidelog.client.errors import RequestExpired
from tidelog.model.ids import TopicName, TopicPartition
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest
from tidelog.wire.messages.sync_group import SyncGroupRequest

SESSION_MS: Final = 6_000
POLL_INTERVAL_MS: Final = 10_000
POLL_MS_MAX: Final = 300
WATCH_MS: Final = 1_000
LOOK_UP_MS_MAX: Final = 20
VERSIONS: Final[dict[type, int]] = {
    JoinGroupRequest: 9,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    LeaveGroupRequest: 5,
    ConsumerGroupHeartbeatRequest: 1,
}


class MachineClient:
    """A program with a consumer."""

    def __init__(
        self,
        world: World,
        name: str,
        topics: Sequence[str],
        protocol: str,
        assignors: Sequence[str] = ("range",),
        instance_id: str | None = None,
    ) -> None:
        self.world = world
        self.name = name
        self.topics = frozenset(map(TopicName, topics))
        self.protocol = protocol
        self.assignors = assignors
        self.connection = 0
        self.alive = False
        self.owned: frozenset[TopicPartition] = frozenset()
        self.failure: Exception | None = None
        self.lives = 0
        self._options: ConsumerOptions = read_options(
            ConsumerOptions,
            None,
            {
                "bootstrap_servers": "a:1",
                "group_id": "readers",
                "group_instance_id": instance_id,
                "group_protocol": protocol,
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": 2_000,
                "max_poll_interval_ms": POLL_INTERVAL_MS,
                "request_timeout_ms": 4_000,
            },
        )
        self._changes: deque[Release | Adopt] = deque()

    @property
    def stable(self) -> bool:
        return self._member.is_stable and not self._changes

    def start(self) -> None:
        self.lives += 1
        self.alive = True
        self.connection += 1
        self._changes.clear()
        self.owned = frozenset()
        self._member: ClassicMember | ConsumerMember
        if self.protocol == "consumer":
            self._member = ConsumerMember(self._options, lambda: f"{self.name}-{self.lives}")
        else:
            self._member = ClassicMember(self._options, assignors_of(self.assignors))
        self._watch(self.lives)
        self._poll(self.lives)

    def crash(self) -> None:
        """Be gone without a word."""
        self.alive = False
        self.connection += 1
        self.owned = frozenset()

    def leave(self) -> None:
        self._step(Leave())
        self.alive = False
        self.owned = frozenset()

    def answered(self, call: Call, response: Any) -> None:
        if self.alive and call.step == self.lives:
            self._step(Answered(call.request, response))

    def _step(self, event: Event) -> None:
        now = self.world.now_ms / 1000
        for effect in self._member.step(now, event):
            self._do(effect)
        wake_at = self._member.wake_at
        if wake_at is not None and self.alive:
            delay_ms = max(1, int(wake_at * 1000) - self.world.now_ms + 1)
            self.world.after(delay_ms, self._tick, self.lives, wake_at)

    def _tick(self, life: int, wake_at: float) -> None:
        if self.alive and life == self.lives and self._member.wake_at == wake_at:
            self._step(Tick())

    def _do(self, effect: Effect) -> None:
        match effect:
            case Ask(request, timeout_s):
                call = Call(self, request, VERSIONS[type(request)], self.lives)
                self.world.send(call)
                self.world.after(int(timeout_s * 1000), self._timed_out, call)
            case Release() | Adopt():
                self._changes.append(effect)
            case LookUp():
                self.world.after(self.world.random.randint(0, LOOK_UP_MS_MAX), self._look_up, self.lives)
            case Fail(error):
                self.failure = error
                self.crash()
            case _:
                pass

    def _timed_out(self, call: Call) -> None:
        if self.alive and call.step == self.lives and not call.heard:
            self._step(Unanswered(call.request, RequestExpired("no answer")))

    def _look_up(self, life: int) -> None:
        if self.alive and life == self.lives:
            known = {TopicName(name): count for name, count in self.world.topics.items()}
            self._step(Subscribed(self.topics, known, {name: topic_id(name) for name in known}))

    def _watch(self, life: int) -> None:
        if self.alive and life == self.lives:
            self._look_up(life)
            self.world.after(WATCH_MS, self._watch, life)

    def _poll(self, life: int) -> None:
        if not self.alive or life != self.lives:
            return
        self._step(Polled())
        while self._changes and self.alive:
            change = self._changes.popleft()
            if isinstance(change, Release):
                self.owned -= change.partitions
                self._step(Released())
            else:
                self.owned = change.partitions
        random = self.world.random
        slow = random.random() < self.world.faults.laziness
        self.world.after(POLL_INTERVAL_MS + 2_000 if slow else random.randint(10, POLL_MS_MAX), self._poll, life)
