"""A consumer of the KIP-848 protocol, as small as a test needs it: it beats, and does as it is told at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.group_desk import GROUP, GroupDesk, topic_id
from tidelog.groups.consumer.heartbeat import consumer_heartbeat
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

Owned = dict[str, set[int]]


class Consumer:
    """One member. `owned` is what it reads now, by the name of the topic."""

    def __init__(
        self,
        desk: GroupDesk,
        member_id: str,
        topics: Sequence[str] | None = ("orders",),
        *,
        pattern: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = 60_000,
        group_id: str = GROUP,
    ) -> None:
        self.desk = desk
        self.member_id = member_id
        self.topics = topics
        self.pattern = pattern
        self.instance_id = instance_id
        self.assignor = assignor
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.group_id = group_id
        self.epoch = 0
        self.owned: Owned = {}

    def send(self, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat with just these fields; nothing is done with the answer."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id, **fields
        )
        answer: ConsumerGroupHeartbeatResponse = self.desk.answers[self.desk.call(consumer_heartbeat, request, 1)]
        return answer

    def join(self) -> ConsumerGroupHeartbeatResponse:
        self.owned = {}
        answer = self.send(
            0,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            subscribed_topic_names=None if self.topics is None else list(self.topics),
            subscribed_topic_regex=self.pattern,
            server_assignor=self.assignor,
            topic_partitions=[],
        )
        self.follow(answer)
        return answer

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat that says what it owns, and then does as it is told."""
        answer = self.send(self.epoch, **{"topic_partitions": self.listed(), **fields})
        self.follow(answer)
        return answer

    def follow(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code:
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            names = {topic_id(name): str(name) for name in self.desk.shard.image.topics_by_name}
            self.owned = {names[each.topic_id]: set(each.partitions) for each in answer.assignment.topic_partitions}

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self.send(epoch)

    def listed(self) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id(name), sorted(partitions)) for name, partitions in self.owned.items()]

    @property
    def count(self) -> int:
        return sum(map(len, self.owned.values()))


def settle(*consumers: Consumer, rounds: int = 10) -> None:
    """Let all beat until nothing moves."""
    for _ in range(rounds):
        for consumer in consumers:
            answer = consumer.beat()
            assert answer.error_code == 0, answer.error_message


def pair(desk: GroupDesk) -> tuple[Consumer, Consumer]:
    """Two members that share four partitions and have settled."""
    first, second = Consumer(desk, "first"), Consumer(desk, "second")
    first.join(), second.join()
    settle(first, second)
    return first, second
