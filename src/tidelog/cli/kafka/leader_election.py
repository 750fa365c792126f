"""kafka-leader-election: elect preferred leaders, or leaders where there are none."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KafkaParser, cluster_of
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.errors import Rejected

SCOPES: Final = ("topic", "all-topic-partitions", "path-to-json-file")
TYPES: Final = ("PREFERRED", "UNCLEAN")


class _Partition(msgspec.Struct):
    topic: str
    partition: int


class _File(msgspec.Struct):
    partitions: list[_Partition]


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    parser = KafkaParser("kafka-leader-election", "Elects leaders of partitions.")
    parser.bootstrap()
    parser.old("--admin.config", "--command-config")
    parser.option("--election-type", "TYPE", "preferred or unclean.")
    parser.option("--topic", "TOPIC", "The topic; needs --partition.")
    parser.option("--partition", "N", "The partition of the topic.")
    parser.flag("--all-topic-partitions", "All partitions that need it.")
    parser.option("--path-to-json-file", "FILE", 'Partitions as {"partitions": [{"topic": "t", "partition": 0}]}.')
    options = parser.read(arguments)
    _check(options)
    kind = options.election_type.upper()
    partitions = _partitions(options)
    return _elect(options, kind, partitions)


def _check(options: argparse.Namespace) -> None:
    missing = [name for name in ("bootstrap-server", "election-type") if _value(options, name) is None]
    if missing:
        raise BadInput(f"Missing required option(s): {', '.join(missing)}")
    if options.election_type.upper() not in TYPES:
        raise BadInput(f"Cannot parse argument '{options.election_type}' of option election-type")
    if sum(bool(_value(options, name)) for name in SCOPES) != 1:
        raise BadInput(f"One and only one of the following options is required: {', '.join(SCOPES)}")
    if options.topic and options.partition is None:
        raise BadInput("Missing required option(s): partition")
    if options.partition is not None:
        if not options.topic:
            raise BadInput("Option partition is only allowed if topic is used")
        if not options.partition.isdigit():
            raise BadInput(f"Cannot parse argument '{options.partition}' of option partition")


def _value(options: argparse.Namespace, name: str) -> object:
    return getattr(options, name.replace("-", "_"))


def _partitions(options: argparse.Namespace) -> list[TopicPartition] | None:
    if options.all_topic_partitions:
        return None
    if options.topic:
        return [TopicPartition(TopicName(options.topic), PartitionIndex(int(options.partition)))]
    try:
        read = msgspec.json.decode(Path(options.path_to_json_file).read_bytes(), type=_File)
    except msgspec.MsgspecError:
        raise BadInput("Replica election data is empty") from None
    places = [TopicPartition(TopicName(row.topic), PartitionIndex(row.partition)) for row in read.partitions]
    twice = sorted({str(place) for place in places if places.count(place) > 1})
    if twice:
        raise BadInput(f"Replica election data contains duplicate partitions: {','.join(twice)}")
    return places


def _elect(options: argparse.Namespace, kind: str, partitions: list[TopicPartition] | None) -> int:
    from tidelog.cli.kafka.java_errors import java_error
    from tidelog.client.elections import ElectionType, elect_leaders
    from tidelog.model.errors import ErrorCode

    with cluster_of(options) as cluster:
        answers = elect_leaders(cluster, ElectionType[kind], partitions)
    elected = [place for place, rejected in answers.items() if rejected is None]
    needless = [place for place, rejected in answers.items() if _is(rejected, ErrorCode.ELECTION_NOT_NEEDED)]
    failed = {
        place: rejected
        for place, rejected in answers.items()
        if rejected is not None and rejected.code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    if elected:
        print(f"Successfully completed leader election ({kind}) for partitions {', '.join(map(str, elected))}")
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(map(str, needless))}")
    for place, rejected in failed.items():
        reason = java_error(rejected, str(rejected))
        print(f"Error completing leader election ({kind}) for partition: {place}: {reason}")
    if failed:
        print(f"{len(failed)} replica(s) could not be elected", file=sys.stderr)
    return int(bool(failed))


def _is(rejected: Rejected | None, code: object) -> bool:
    return rejected is not None and rejected.code is code
