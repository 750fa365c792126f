"""Offsets of many partitions as Spark keeps them: JSON of topic, partition, offset, the same as its Kafka connector's.

Used by the readers for `startingOffsets` and for the checkpoints of a stream. Pure.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.spark.errors import InvalidOption

Positions: TypeAlias = dict[TopicPartition, Offset]
# What Spark hands to and takes from a stream reader: JSON's own types.
PositionTree: TypeAlias = dict[str, dict[str, int]]


def parse_positions(text: str, option: str) -> Positions:
    """Read {"topic": {"0": 23}}. InvalidOption names the option and what is wrong with it."""
    return {key: Offset(number) for key, number in parse_numbers(text, option).items()}


def parse_numbers(text: str, option: str) -> dict[TopicPartition, int]:
    """A number for each partition: an offset or a time."""
    example = 'write it as {"topic": {"0": 23, "1": -2}}'
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidOption(f"Option {option} is no JSON ({error}): {example}.") from None
    numbers: dict[TopicPartition, int] = {}
    if not isinstance(tree, dict):
        raise InvalidOption(f"Option {option} is no JSON object: {example}.")
    for topic, partitions in tree.items():
        if not isinstance(partitions, dict):
            raise InvalidOption(f"Option {option} has no partitions for topic '{topic}': {example}.")
        for partition, number in partitions.items():
            if not partition.isdigit() or not isinstance(number, int) or isinstance(number, bool):
                raise InvalidOption(f"Option {option} has no numbers for topic '{topic}': {example}.")
            numbers[TopicPartition(TopicName(topic), PartitionIndex(int(partition)))] = number
    return numbers


def parse_partitions(text: str, option: str) -> list[TopicPartition]:
    """Read {"topic": [0, 1]}."""
    example = 'write it as {"topic": [0, 1]}'
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidOption(f"Option {option} is no JSON ({error}): {example}.") from None
    if not isinstance(tree, dict) or not tree:
        raise InvalidOption(f"Option {option} names no topic: {example}.")
    found: list[TopicPartition] = []
    for topic, partitions in tree.items():
        if not isinstance(partitions, list) or not all(type(index) is int and index >= 0 for index in partitions):
            raise InvalidOption(f"Option {option} has no list of partitions for topic '{topic}': {example}.")
        found += [TopicPartition(TopicName(topic), PartitionIndex(index)) for index in partitions]
    return found


def tree_of(positions: Mapping[TopicPartition, Offset]) -> PositionTree:
    """For Spark's checkpoint."""
    tree: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (topic, partition), offset in sorted(positions.items()):
        tree[topic][str(partition)] = offset
    return dict(tree)


def positions_of(tree: Mapping[str, Mapping[str, int]]) -> Positions:
    """From Spark's checkpoint."""
    return {
        TopicPartition(TopicName(topic), PartitionIndex(int(partition))): Offset(offset)
        for topic, partitions in tree.items()
        for partition, offset in partitions.items()
    }
