"""Whether a new leader has what a consumer has read (KIP-320): the question to it, and what its answer means.

After an unclean election a leader may lack records that were read already. `aio/epoch_checks.py` asks before the first
fetch from a leader of a new epoch. A position whose epoch nobody knows, such as one that was sought, is taken as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from tidelog.client.core.offsets import CONSUMER, by_topic
from tidelog.client.core.reading import EpochQuestion, Place
from tidelog.client.errors import LogTruncated, Rejected, rejection
from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

# From this version on consumers may ask; before, it was for brokers.
FIRST_VERSION_FOR_CONSUMERS: Final = 3


class EpochEnd(NamedTuple):
    """The newest epoch that the leader has, up to the one asked about, and where its records end; -1 if it has none."""

    epoch: LeaderEpoch
    offset: Offset


class Verdict(Enum):
    """What follows from an answer."""

    SAME = auto()
    # Something that was fetched ahead, but not handed out, is gone.
    FETCH_AGAIN = auto()
    # Something that the program has read is gone.
    TRUNCATED = auto()


def epochs_request(questions: Mapping[TopicPartition, EpochQuestion]) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(
        CONSUMER,
        [
            OffsetForLeaderTopic(
                name, [OffsetForLeaderPartition(index, asked.leader_epoch, asked.epoch) for index, asked in partitions]
            )
            for name, partitions in by_topic(questions).items()
        ],
    )


def epoch_ends(answer: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochEnd | Rejected]:
    return {
        TopicPartition(TopicName(topic.topic), PartitionIndex(partition.partition)): rejection(partition.error_code)
        or EpochEnd(LeaderEpoch(partition.leader_epoch), Offset(partition.end_offset))
        for topic in answer.topics
        for partition in topic.partitions
    }


def judge(place: Place, end: EpochEnd) -> Verdict:
    """Compare what a consumer has with what the leader has."""
    assert place.position is not None and place.fetch_offset is not None, place
    if end.epoch < 0 or end.offset < 0:
        return Verdict.TRUNCATED
    if end.offset >= place.fetch_offset:
        return Verdict.SAME
    return (
        Verdict.FETCH_AGAIN
        if end.offset >= place.position and place.fetch_offset > place.position
        else Verdict.TRUNCATED
    )


def truncated(place: Place, end: EpochEnd) -> LogTruncated:
    """The error of a consumer that may not choose by itself where to go on."""
    assert place.position is not None, place
    divergent = end.offset if end.epoch >= 0 and end.offset >= 0 else None
    return LogTruncated(place.partition, place.position, divergent)
