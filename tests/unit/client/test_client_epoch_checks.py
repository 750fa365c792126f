"""A consumer's questions to a new leader (KIP-320), with answers that a test writes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, cast

import pytest

from tidelog.client.aio.epoch_checks import EpochChecks
from tidelog.client.aio.network import Network
from tidelog.client.core.metadata import Node
from tidelog.client.core.options import ConsumerOptions
from tidelog.client.core.reading import EpochQuestion, Place, Reading
from tidelog.client.errors import ClientError, LogTruncated
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

A0 = TopicPartition(TopicName("a"), PartitionIndex(0))
LEADER = Node(NodeId(1), "localhost", 9092)
QUESTIONS = {A0: EpochQuestion(LeaderEpoch(3), LeaderEpoch(5))}


class Answering:
    """The network of a cluster whose leader gives one answer."""

    backoff_s = 0.0

    def __init__(self, answer: EpochEndOffset, version: int) -> None:
        self._answer = answer
        self._version = version

    async def connection(self, node: Node) -> Answering:
        return self

    def version_of(self, request: object) -> int:
        return self._version

    async def call(self, *_: object) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult("a", [self._answer])])


class Consuming:
    """What the checks use of a consumer."""

    def __init__(self, network: Answering) -> None:
        self.network = cast(Network, network)
        self.reading = Reading(1000, 1000)
        self.reading.assign([A0])
        self.reading.place(A0).go_to(Offset(8), LeaderEpoch(3))
        self.reading.place(A0).is_checking = True
        self.failures: list[ClientError] = []
        self.looked_up: set[TopicName] = set()

    def fail(self, error: ClientError) -> None:
        self.failures.append(error)

    def look_up(self, topics: Iterable[TopicName]) -> None:
        self.looked_up |= set(topics)

    def wake(self) -> None:
        pass


def asked(answer: EpochEndOffset, reset: str = "earliest", version: int = 4) -> tuple[Consuming, Place]:
    consuming = Consuming(Answering(answer, version))
    options = ConsumerOptions(bootstrap_servers="localhost:9092", auto_offset_reset=reset)
    checks: Any = EpochChecks(consuming, nullcontext(), options)
    asyncio.run(checks.ask(LEADER, QUESTIONS))
    return consuming, consuming.reading.place(A0)


def test_a_leader_that_has_everything_is_trusted() -> None:
    consuming, place = asked(EpochEndOffset(0, 0, 3, 8))
    assert (place.trusted_epoch, place.is_checking, place.position) == (5, False, 8)
    assert not consuming.failures


def test_a_consumer_that_may_choose_goes_on_where_the_logs_part() -> None:
    consuming, place = asked(EpochEndOffset(0, 0, 2, 5))
    assert (place.position, place.fetch_offset, place.fetch_epoch, place.is_checking) == (5, 5, 2, False)
    assert not consuming.failures


def test_a_consumer_that_may_not_choose_fails_until_it_is_told_where_to_go() -> None:
    consuming, place = asked(EpochEndOffset(0, 0, 2, 5), reset="none")
    (failure,) = consuming.failures
    assert isinstance(failure, LogTruncated)
    assert (failure.partition, failure.position, failure.divergent_offset) == (A0, 8, 5)
    assert (place.position, place.is_checking, place.trusted_epoch) == (8, False, -1)


def test_a_leader_that_knows_nothing_of_the_epoch_sends_the_consumer_to_where_it_begins() -> None:
    _, place = asked(EpochEndOffset(0, 0, -1, -1), reset="latest")
    assert (place.position, place.reset_to_ms) == (None, -1)
    consuming, _ = asked(EpochEndOffset(0, 0, -1, -1), reset="none")
    assert isinstance(consuming.failures[0], LogTruncated) and consuming.failures[0].divergent_offset is None


@pytest.mark.parametrize("code", [6, 74, 75])
def test_who_is_no_leader_any_more_is_asked_again_after_new_metadata(code: int) -> None:
    consuming, place = asked(EpochEndOffset(code, 0))
    assert consuming.looked_up == {A0.topic}
    assert (place.trusted_epoch, place.is_checking, place.position) == (-1, False, 8)


def test_a_refusal_for_good_is_told_to_the_program() -> None:
    consuming, _ = asked(EpochEndOffset(29, 0))
    assert "TOPIC_AUTHORIZATION_FAILED" in str(consuming.failures[0])


def test_a_broker_that_is_too_old_to_be_asked_is_trusted() -> None:
    _, place = asked(EpochEndOffset(0, 0, 2, 5), version=2)
    assert (place.trusted_epoch, place.position, place.is_checking) == (5, 8, False)
