"""Asks a partition's new leader whether it has what was read (KIP-320), and does what follows from its answer.

The engine of the consumer calls it instead of a fetch when a leader's epoch has changed; `core/divergence.py` judges.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from tidelog.client.aio.network import Network
from tidelog.client.core.divergence import (
    FIRST_VERSION_FOR_CONSUMERS,
    EpochEnd,
    Verdict,
    epoch_ends,
    epochs_request,
    judge,
    truncated,
)
from tidelog.client.core.metadata import Node
from tidelog.client.core.options import ConsumerOptions
from tidelog.client.core.reading import EpochQuestion, Place, Reading
from tidelog.client.errors import ClientError, Rejected, UnsupportedByBroker
from tidelog.model.errors import RETRIABLE
from tidelog.model.ids import NO_EPOCH, NO_OFFSET, TopicName, TopicPartition
from tidelog.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

Answer = EpochEnd | Rejected
# Stands for the answer of a broker that is too old.
NOT_ASKED: Final = EpochEnd(NO_EPOCH, NO_OFFSET)

log = logging.getLogger("tidelog.client")


class Engine(Protocol):
    """What is used of the consumer's engine."""

    network: Network
    reading: Reading

    def fail(self, error: ClientError) -> None: ...

    def look_up(self, topics: Iterable[TopicName]) -> None: ...

    def wake(self) -> None: ...


class EpochChecks:
    """Questions to new leaders."""

    def __init__(self, engine: Engine, lock: AbstractContextManager[Any], options: ConsumerOptions) -> None:
        self._engine = engine
        self._lock = lock
        self._options = options

    async def ask(self, node: Node, questions: Mapping[TopicPartition, EpochQuestion]) -> None:
        """Ask one leader about its partitions: they are fetched after that, or asked about again."""
        engine = self._engine
        with self._lock:
            places = {place: place.version for place in map(engine.reading.places.get, questions) if place is not None}
        answers: Mapping[TopicPartition, Answer] = {}
        try:
            answers = await self._answers(node, questions)
        except ClientError as error:
            log.debug("epochs of %s: %s", node, error)
        later: list[Place] = []
        with self._lock:
            for place, version in places.items():
                if place.version == version and not self._settle(place, questions, answers.get(place.partition)):
                    later.append(place)
        engine.wake()
        if later:
            engine.look_up({place.partition.topic for place in later})
            await asyncio.sleep(engine.network.backoff_s)
            with self._lock:
                for place in later:
                    place.is_checking = place.is_checking and place.version != places[place]
            engine.wake()

    async def _answers(
        self, node: Node, questions: Mapping[TopicPartition, EpochQuestion]
    ) -> Mapping[TopicPartition, Answer]:
        connection = await self._engine.network.connection(node)
        try:
            version = connection.version_of(OffsetForLeaderEpochRequest)
        except UnsupportedByBroker:
            version = 0
        if version < FIRST_VERSION_FOR_CONSUMERS:
            # Too old a broker to be asked: its word is taken for it.
            return dict.fromkeys(questions, NOT_ASKED)
        answer = await self._engine.network.call(node, epochs_request(questions), OffsetForLeaderEpochResponse)
        return epoch_ends(answer)

    def _settle(self, place: Place, questions: Mapping[TopicPartition, EpochQuestion], answer: Answer | None) -> bool:
        """Do what follows from an answer; False when it has to be asked again. The lock is held."""
        if answer is None:
            return False
        if isinstance(answer, Rejected):
            if answer.code not in RETRIABLE:
                self._engine.fail(Rejected(answer.code, f"{place.partition} cannot be read: {answer.code.name}."))
            return False
        verdict = Verdict.SAME if answer is NOT_ASKED else judge(place, answer)
        if verdict is Verdict.SAME:
            place.trusted_epoch = questions[place.partition].leader_epoch
            place.is_checking = False
        elif verdict is Verdict.FETCH_AGAIN:
            place.fetch_again()
        else:
            return self._truncated(place, answer)
        return True

    def _truncated(self, place: Place, end: EpochEnd) -> bool:
        reset_to_ms = self._options.reset_to_ms
        if reset_to_ms is None:
            self._engine.fail(truncated(place, end))
            return False
        error = truncated(place, end)
        if error.divergent_offset is None:
            self._engine.reading.reset([place.partition], reset_to_ms)
        else:
            place.go_to(error.divergent_offset, end.epoch)
        log.warning("%s Going on %s.", error, place_in_words(place))
        return True


def place_in_words(place: Place) -> str:
    return "as auto_offset_reset says" if place.position is None else f"from offset {place.position}"
