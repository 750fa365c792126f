"""What members of a classic group agree on: the vote for a protocol, and the topics that their metadata names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tidelog.model.errors import ProtocolError
from tidelog.wire.compiler import decode
from tidelog.wire.messages.consumer_protocol import ConsumerProtocolSubscription

# The protocol type of consumers; Connect and others have their own, whose metadata the broker cannot read.
CONSUMER: Final = "consumer"

# The names of the protocols that a member speaks, best first, each with its metadata.
Protocols = tuple[tuple[str, bytes], ...]


def vote(ballots: Iterable[Protocols]) -> str:
    """The protocol that most members prefer among those that all of them speak."""
    members = list(ballots)
    spoken = Counter(name for protocols in members for name in {name for name, _ in protocols})
    candidates = {name for name, count in spoken.items() if count == len(members)}
    assert candidates, "a member joins only when it shares a protocol with all others"
    votes = Counter(next(name for name, _ in protocols if name in candidates) for protocols in members)
    return votes.most_common(1)[0][0]


def subscribed_topics(protocol_type: str | None, metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all subscriptions; None when the metadata is not a consumer's, or cannot be read.

    Every version of a subscription begins with version 0, which is enough.
    """
    if protocol_type != CONSUMER:
        return None
    topics: set[str] = set()
    try:
        for encoded in metadata:
            topics.update(decode(ConsumerProtocolSubscription, 0, memoryview(encoded)[2:]).topics)
    except ProtocolError:
        return None
    return frozenset(topics)
