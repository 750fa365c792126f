"""What a member of a group hears and does, whichever protocol it speaks: the events and effects of its machine.

`classic_member.py` and `consumer_member.py` are the machines; `aio/group_driver.py` does what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tidelog.client.core.transaction import GroupMetadata
from tidelog.client.errors import ClientError
from tidelog.model.ids import TopicId, TopicName, TopicPartition
from tidelog.wire.schema import Request, Response


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The program asked for records: it is alive."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """These topics are to be read. `counts` are their partitions, `ids` their ids, as far as they are known."""

    topics: frozenset[TopicName]
    counts: Mapping[TopicName, int]
    ids: Mapping[TopicName, TopicId]


@dataclass(frozen=True, slots=True)
class Answered:
    request: Request
    response: Response


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The coordinator could not be asked, or did not answer."""

    request: Request
    error: ClientError


@dataclass(frozen=True, slots=True)
class Released:
    """The program has given up what it was told to."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The program has no more use for the group."""


Event = Tick | Polled | Subscribed | Answered | Unanswered | Released | Leave


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a request to the coordinator; Answered or Unanswered says how that ended."""

    request: Request
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Release:
    """Stop reading these, let the program know, then say Released. `lost`: others may read them already."""

    partitions: frozenset[TopicPartition]
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Adopt:
    """The assignment now; `added` are new in it."""

    partitions: frozenset[TopicPartition]
    added: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Rediscover:
    """The coordinator is somewhere else."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """Find out what topics these are, or how many partitions they have, and say Subscribed again."""

    topics: frozenset[TopicName]


@dataclass(frozen=True, slots=True)
class Fail:
    """Nothing can be done: the program has to know."""

    error: ClientError


Effect = Ask | Release | Adopt | Rediscover | LookUp | Fail


class Member(Protocol):
    """One member of one group."""

    def step(self, now: float, event: Event) -> list[Effect]:
        """What is to be done because something happened."""
        ...

    @property
    def wake_at(self) -> float | None:
        """When to say Tick, if nothing else happens."""
        ...

    @property
    def identity(self) -> GroupMetadata:
        """Who it is now, for commits."""
        ...

    @property
    def is_stable(self) -> bool:
        """Whether it has an assignment and no rebalance is under way."""
        ...

    @property
    def has_left(self) -> bool: ...
