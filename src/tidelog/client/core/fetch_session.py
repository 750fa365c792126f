"""The client's side of a fetch session (KIP-227): after the first request only what changed is sent and answered.

One for each broker that a consumer reads from; `aio/consume_engine.py` sends the requests that it makes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.client.core.metadata import Topic
from tidelog.client.errors import Rejected, code_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, LeaderEpoch, Offset, TopicId, TopicName, TopicPartition
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

# The last version that names topics; from the next on it is their ids (KIP-516).
LAST_VERSION_WITH_NAMES: Final = 12
NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
WITHOUT_SESSION_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """From where to read a partition, and how much at most."""

    offset: Offset
    leader_epoch: LeaderEpoch
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How much to wait for, and how long."""

    wait_ms: int
    bytes_min: int
    bytes_max: int
    read_committed: bool
    rack: str = ""


class FetchSession:
    """What one broker remembers of our last request."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._id = NO_SESSION
        self._epoch = FIRST_EPOCH if enabled else WITHOUT_SESSION_EPOCH
        self._sent: dict[TopicPartition, Wanted] = {}
        self._topics: dict[TopicName, Topic] = {}

    def request(
        self, wanted: Mapping[TopicPartition, Wanted], topics: Mapping[TopicName, Topic], limits: Limits
    ) -> FetchRequest:
        """The next request: everything when the session begins, later the difference to the last."""
        if any(self._topics.get(name, topic).id != topic.id for name, topic in topics.items()):
            self.reset()
        if self._id == NO_SESSION:
            changed, gone = dict(wanted), []
        else:
            changed = {partition: want for partition, want in wanted.items() if self._sent.get(partition) != want}
            gone = [partition for partition in self._sent if partition not in wanted]
        self._topics.update(topics)
        self._sent = dict(wanted)
        return FetchRequest(
            max_wait_ms=limits.wait_ms,
            min_bytes=limits.bytes_min,
            max_bytes=limits.bytes_max,
            isolation_level=int(limits.read_committed),
            session_id=self._id,
            session_epoch=self._epoch,
            topics=[
                FetchTopic(name, self._topics[name].id, [_asked(partition, want) for partition, want in partitions])
                for name, partitions in _by_topic(changed.items()).items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(name, self._topics[name].id, [partition.partition for partition, _ in partitions])
                for name, partitions in _by_topic((partition, None) for partition in gone).items()
            ],
            rack_id=limits.rack,
        )

    def newest_version(self) -> int | None:
        """Topics without an id, from an old broker, cannot be asked for by id."""
        nameless = any(self._topics[partition.topic].id == ZERO_UUID for partition in self._sent)
        return LAST_VERSION_WITH_NAMES if nameless else None

    def answered(self, answer: FetchResponse) -> bool:
        """Go on with the session that the broker has; False when it has lost it and everything must be asked again."""
        code = code_of(answer.error_code)
        if code in SESSION_ERRORS:
            self.reset()
            return False
        if code:
            raise Rejected(code)
        if self._epoch == WITHOUT_SESSION_EPOCH:
            return True
        if self._id == NO_SESSION:
            self._id = answer.session_id
        # The broker may have no room for a session: then every request is a first one.
        if self._id != NO_SESSION:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return True

    def name_of(self, topic: str, topic_id: TopicId) -> TopicName:
        """The name of a topic in an answer, by which our side knows it."""
        if topic:
            return TopicName(topic)
        for name, known in self._topics.items():
            if known.id == topic_id:
                return name
        return TopicName("")

    def reset(self) -> None:
        """Begin anew with the next request."""
        self._id = NO_SESSION
        self._epoch = min(self._epoch, FIRST_EPOCH)
        self._sent.clear()
        self._topics.clear()


def _asked(partition: TopicPartition, want: Wanted) -> FetchPartition:
    return FetchPartition(partition.partition, want.leader_epoch, want.offset, partition_max_bytes=want.bytes_max)


def _by_topic(
    partitions: Iterable[tuple[TopicPartition, T]],
) -> dict[TopicName, list[tuple[TopicPartition, T]]]:
    topics: defaultdict[TopicName, list[tuple[TopicPartition, T]]] = defaultdict(list)
    for partition, value in partitions:
        topics[partition.topic].append((partition, value))
    return topics
