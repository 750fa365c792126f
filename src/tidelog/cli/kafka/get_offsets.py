"""kafka-get-offsets: topic:partition:offset, of the end or another time."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import Final

from tidelog.cli.failures import BadInput, explain
from tidelog.cli.kafka.arguments import KafkaParser, cluster_of
from tidelog.cli.kafka.topic_filter import TopicFilter
from tidelog.model.ids import TopicPartition

TIMES: Final = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
_PATTERN: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

Matches = Callable[[TopicPartition], bool]


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    parser = KafkaParser("kafka-get-offsets", "Shows offsets of partitions.")
    parser.bootstrap(old=("--broker-list",))
    parser.option("--topic", "REGEX", "The topics; all without it.")
    parser.option("--partitions", "N,N", "The partitions of these topics.")
    parser.option("--topic-partitions", "T:N,T:N-M,…", "Topics with partitions, a range of them, or all.")
    parser.option("--time", "TIME", "Milliseconds since 1970, or one of " + ", ".join(TIMES) + ".", default="latest")
    parser.flag("--exclude-internal-topics", "Leave internal topics out.")
    options = parser.read(arguments)
    parser.require(options, "bootstrap-server")
    try:
        _show(options)
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        print(f"Error occurred: {sentence}", file=sys.stderr)
        return 1
    return 0


def _show(options: argparse.Namespace) -> None:
    from tidelog.client.admin import Admin
    from tidelog.client.errors import Rejected

    if options.topic_partitions and (options.topic or options.partitions):
        raise BadInput("--topic-partitions cannot be used with --topic or --partitions")
    timestamp_ms = _time(options.time)
    wanted = (
        _patterns(options.topic_partitions) if options.topic_partitions else _plain(options.topic, options.partitions)
    )
    with cluster_of(options) as cluster:
        admin = Admin(cluster)
        found = [
            TopicPartition(topic.name, partition.index)
            for topic in admin.list_topics()
            if not (topic.internal and options.exclude_internal_topics)
            for partition in topic.partitions
        ]
        partitions = [partition for partition in found if wanted(partition)]
        if not partitions:
            raise BadInput("Could not match any topic-partitions with the specified filters")
        answers = admin.list_offsets(dict.fromkeys(partitions, timestamp_ms))
    for partition in sorted(partitions):
        answer = answers[partition]
        if isinstance(answer, Rejected):
            where = f"for topic {partition.topic} partition {partition.partition}"
            print(f"Skip getting offsets {where} due to error: {answer}", file=sys.stderr)
        elif answer.offset >= 0:
            print(f"{partition.topic}:{partition.partition}:{answer.offset}")


def _time(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        named = " / ".join(f"{number} or {name}" for name, number in TIMES.items())
        raise BadInput(
            f"Malformed time argument {text}. Please use {named}, or a specified long format timestamp"
        ) from None


def _plain(topic: str | None, partitions: str | None) -> Matches:
    names = None if topic is None else TopicFilter(topic)
    try:
        numbers = {int(number) for number in (partitions or "").split(",") if number}
    except ValueError:
        raise BadInput(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {partitions}"
        ) from None
    return lambda partition: (
        (names is None or names.matches(partition.topic)) and (not numbers or partition.partition in numbers)
    )


def _patterns(text: str) -> Matches:
    patterns = [_pattern(part) for part in text.split(",")]
    return lambda partition: any(pattern(partition) for pattern in patterns)


def _pattern(text: str) -> Matches:
    """ "topic", "topic:3", "topic:1-3" (without 3), "topic:1-", "topic:-3", ":3"."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise BadInput(f"Invalid rule specification: {text}")
    topic, single, first, last = found.groups()
    names = TopicFilter(topic) if topic else None
    low = int(single or first or 0)
    high = int(single) + 1 if single else int(last) if last else None
    return lambda partition: (
        (names is None or names.matches(partition.topic))
        and partition.partition >= low
        and (high is None or partition.partition < high)
    )
