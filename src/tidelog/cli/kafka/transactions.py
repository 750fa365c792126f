"""kafka-transactions: list and describe transactions, see the producers of a partition, find and abort what hangs.

Subcommands with options of their own, unlike Kafka's other tools: the bootstrap server comes before them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import KAFKA_VERSION, MILLISECONDS, cluster_of
from tidelog.model.ids import NodeId, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.model.version import __version__

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster
    from tidelog.client.transactions import OpenTransaction

MINUTE_MS: Final = 60_000
MAX_TIMEOUT_MINUTES: Final = 15
NONE: Final = "None"

LISTED: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBED: Final = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
PRODUCERS: Final = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
HANGING: Final = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)


class _Parser(argparse.ArgumentParser):
    """Ends with 1 when it was called wrongly, as Kafka's does."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        sys.exit(1)


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    options = _parser().parse_args(list(arguments))
    with cluster_of(options) as cluster:
        ACTS[options.command](cluster, options)
    return 0


def _parser() -> _Parser:
    parser = _Parser("kafka-transactions", description="Shows transactions and their producers, and ends what hangs.")
    parser.add_argument("-v", "--version", action="version", version=f"{KAFKA_VERSION} (Tidelog {__version__})")
    parser.add_argument("--command-config", metavar="FILE", help="Properties of the client.")
    parser.add_argument("--bootstrap-server", metavar="host:port", required=True, help="The brokers to connect to.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name: str, help_: str, *options: tuple[str, str, dict[str, Any]]) -> None:
        sub = commands.add_parser(name, help=help_, description=help_)
        for option, text, settings in options:
            sub.add_argument(option, help=text, **settings)

    number: dict[str, Any] = {"type": int}
    needed: dict[str, Any] = {"required": True}
    add(
        "list",
        "List transactions.",
        ("--duration-filter", "Only those that run for longer than this, in milliseconds.", number),
        ("--transactional-id-pattern", "Only ids that match this regular expression.", {}),
    )
    add("describe", "Describe a transactional id.", ("--transactional-id", "The id.", needed))
    add(
        "describe-producers",
        "Describe the producers of a partition.",
        ("--broker-id", "Ask this broker instead of the leader.", number),
        ("--topic", "The topic.", needed),
        ("--partition", "The partition.", number | needed),
    )
    add(
        "abort",
        "Abort a hanging transaction in one partition.",
        ("--topic", "The topic.", needed),
        ("--partition", "The partition.", number | needed),
        ("--start-offset", "Where the transaction begins.", number),
        ("--producer-id", "Instead of that: its producer.", number),
        ("--producer-epoch", "The epoch of the producer.", number),
        ("--coordinator-epoch", "The epoch of the last coordinator.", number),
    )
    add(
        "forceTerminateTransaction",
        "Abort the open transaction of a transactional id and fence its producer.",
        ("--transactionalId", "The id.", needed),
    )
    add(
        "find-hanging",
        "Find transactions that nobody will end.",
        ("--broker-id", "Only on this broker.", number),
        ("--max-transaction-timeout", "Longer than this, in minutes.", number | {"default": MAX_TIMEOUT_MINUTES}),
        ("--topic", "Only in this topic.", {}),
        ("--partition", "Only in this partition of the topic.", number),
    )
    return parser


def _list(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.client.transactions import Transactions

    duration_ms = options.duration_filter
    found = _tried(
        "Failed to list transactions",
        lambda: Transactions(cluster).list_transactions(
            running_longer_than_ms=duration_ms if duration_ms is not None and duration_ms >= 0 else None,
            id_pattern=options.transactional_id_pattern,
        ),
    )
    _print_table(LISTED, [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in found])


def _describe(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.client.transactions import Transactions

    name = options.transactional_id
    found = _tried(
        f"Failed to describe transaction state of transactional-id `{name}`",
        lambda: Transactions(cluster).describe(name),
    )
    row = (
        found.coordinator,
        found.transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        NONE if found.start_ms is None else found.start_ms,
        NONE if found.start_ms is None else _now_ms() - found.start_ms,
        ",".join(map(str, found.partitions)),
    )
    _print_table(DESCRIBED, [row])


def _describe_producers(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.client.admin import accepted
    from tidelog.client.transactions import Transactions

    partition = _partition(options)
    broker = None if options.broker_id is None else NodeId(options.broker_id)
    where = "leader" if broker is None else f"broker {broker}"
    found = _tried(
        f"Failed to describe producers for partition {partition} on {where}",
        lambda: accepted(Transactions(cluster).producers([partition], broker=broker)[partition]),
    )
    _print_table(
        PRODUCERS,
        [
            (
                each.producer_id,
                each.epoch,
                each.coordinator_epoch,
                each.last_sequence,
                each.last_timestamp_ms,
                NONE if each.transaction_start is None else each.transaction_start,
            )
            for each in found
        ],
    )


def _abort(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.client.transactions import Transactions

    client = Transactions(cluster)
    partition = _partition(options)
    if options.start_offset is not None:
        start = Offset(options.start_offset)
        producer = _tried(
            f"Failed to validate producer state for partition {partition}", lambda: client.open_at(partition, start)
        )
        if producer is None:
            raise BadInput(f"Could not find any open transactions starting at offset {start} on partition {partition}")
        spec = (producer.producer_id, ProducerEpoch(producer.epoch), producer.coordinator_epoch)
    else:
        spec = _given_producer(options)
    _tried(f"Failed to abort transaction {spec} of {partition}", lambda: client.abort(partition, *spec))


def _given_producer(options: argparse.Namespace) -> tuple[ProducerId, ProducerEpoch, int]:
    if options.producer_id is None:
        raise BadInput(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    for name in ("producer-epoch", "coordinator-epoch"):
        if getattr(options, name.replace("-", "_")) is None:
            raise BadInput(f"Missing required argument --{name}")
    return ProducerId(options.producer_id), ProducerEpoch(options.producer_epoch), options.coordinator_epoch


def _force_terminate(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.client.transactions import Transactions

    name = options.transactionalId
    _tried(
        f"Failed to force terminate transaction for transactionalId `{name}`",
        lambda: Transactions(cluster).terminate(name),
    )


def _find_hanging(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.client.transactions import Transactions

    if options.topic is None and options.broker_id is None:
        raise BadInput(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if options.partition is not None and options.topic is None:
        raise BadInput("The --partition argument requires --topic to be provided")
    broker = None if options.broker_id is None else NodeId(options.broker_id)
    now_ms = _now_ms()
    found = _tried(
        "Failed to find hanging transactions",
        lambda: Transactions(cluster).find_hanging(
            _searched(cluster, options, broker),
            now_ms - options.max_transaction_timeout * MINUTE_MS,
            broker=broker,
        ),
    )
    _print_table(HANGING, [_hanging_row(each, now_ms) for each in found])


def _searched(cluster: Cluster, options: argparse.Namespace, broker: NodeId | None) -> list[TopicPartition]:
    from tidelog.client.admin import Admin

    if options.partition is not None:
        return [_partition(options)]
    topics = [topic for topic in Admin(cluster).list_topics() if options.topic is None or topic.name == options.topic]
    return [
        TopicPartition(topic.name, partition.index)
        for topic in topics
        for partition in topic.partitions
        if broker is None or broker in partition.replicas
    ]


def _hanging_row(found: OpenTransaction, now_ms: int) -> tuple[object, ...]:
    producer = found.producer
    return (
        found.partition.topic,
        found.partition.partition,
        producer.producer_id,
        producer.epoch,
        producer.coordinator_epoch,
        producer.transaction_start,
        producer.last_timestamp_ms,
        (now_ms - producer.last_timestamp_ms) // MINUTE_MS,
    )


def _partition(options: argparse.Namespace) -> TopicPartition:
    return TopicPartition(TopicName(options.topic), PartitionIndex(options.partition))


def _now_ms() -> int:
    return int(time.time() * MILLISECONDS)


def _tried(what: str, act: Callable[[], Any]) -> Any:
    """Do something; a refusal becomes the sentence that Kafka's tool ends with."""
    from tidelog.cli.kafka.java_errors import java_message
    from tidelog.client.errors import Rejected

    try:
        return act()
    except Rejected as error:
        raise BadInput(f"{what}: {java_message(error)}. Enable debug logging for additional detail.") from None


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[number]) for row in cells) for number in range(len(columns))]
    for row in cells:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))


ACTS: Final = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "forceTerminateTransaction": _force_terminate,
    "find-hanging": _find_hanging,
}
