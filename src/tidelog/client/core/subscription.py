"""What a consumer was told to read: topics by name, topics by pattern, or partitions; and who is told of changes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.client.core.metadata import ClusterView
from tidelog.client.errors import InvalidOption
from tidelog.model.ids import TopicName, TopicPartition


class RebalanceListener:
    """Told inside `poll` what a group gives and takes. Subclass it; with asyncio the methods may be coroutines."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> object:
        """These are read from now on; a seek here decides from where."""
        return None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> object:
        """These are given up after this call, which is the time to commit."""
        return None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> object:
        """These were given to others already: too late for a commit. Does what `on_partitions_revoked` does."""
        return self.on_partitions_revoked(partitions)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics by name or by pattern."""

    topics: frozenset[TopicName] = frozenset()
    pattern: re.Pattern[str] | None = None
    exclude_internal: bool = True

    def topics_in(self, view: ClusterView) -> frozenset[TopicName]:
        """The topics that are meant, as far as the pattern can know them."""
        if self.pattern is None:
            return self.topics
        return frozenset(
            topic.name
            for topic in view.topics.values()
            if not topic.error and not (topic.internal and self.exclude_internal) and self.pattern.fullmatch(topic.name)
        )


def subscription_of(
    topics: Iterable[str] | str | None, pattern: str | re.Pattern[str] | None, exclude_internal: bool
) -> Subscription:
    """What `subscribe` was given: names, or a pattern for whole names. A name that begins with ^ is a pattern, too."""
    if isinstance(topics, str):
        topics = [topics]
    names = list(topics or ())
    if pattern is None and len(names) == 1 and names[0].startswith("^"):
        pattern, names = names[0], []
    if bool(names) == (pattern is not None):
        raise InvalidOption("subscribe takes topics or a pattern.")
    if pattern is None:
        return Subscription(frozenset(map(TopicName, names)))
    try:
        compiled = re.compile(pattern) if isinstance(pattern, str) else pattern
    except re.error as error:
        raise InvalidOption(f"{pattern!r} is no regular expression: {error}.") from None
    return Subscription(pattern=compiled, exclude_internal=exclude_internal)
