"""`tidelog transactions`: list, describe and abort transactions; find those that nobody will end."""

from __future__ import annotations

import time
from typing import Final

import click

from tidelog.cli.failures import BadInput
from tidelog.cli.options import bootstrap_option, connect, format_option
from tidelog.cli.output import say, write_json, write_table
from tidelog.model.ids import Offset, PartitionIndex, ProducerEpoch, TopicName, TopicPartition

NONE: Final = "-"
SECOND_MS: Final = 1_000
# As long as transactions may be open where nobody allows more: transaction.max.timeout.ms.
SILENT_SECONDS: Final = 900
OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


@click.group()
def transactions() -> None:
    """List, describe and abort transactions; find those that nobody will end."""


@transactions.command("list")
@click.option("--state", "states", multiple=True, help="Only in this state, such as Ongoing; may be repeated.")
@click.option("--longer-than", type=click.IntRange(min=0), metavar="SECONDS", help="Only those that run for longer.")
@click.option("--pattern", help="Only ids that match this regular expression.")
@bootstrap_option
@format_option
def list_(states: tuple[str, ...], longer_than: int | None, pattern: str | None, bootstrap: str, format_: str) -> None:
    """List transactional ids and where their newest transaction stands."""
    from tidelog.client.transactions import Transactions

    if longer_than is not None and not states:
        # A coordinator counts from the beginning of a transaction, whether it has ended or not.
        states = OPEN_STATES
    with connect(bootstrap) as cluster:
        found = Transactions(cluster).list_transactions(
            states=states,
            running_longer_than_ms=None if longer_than is None else longer_than * SECOND_MS,
            id_pattern=pattern,
        )
    found.sort(key=lambda each: each.transactional_id)
    if format_ == "json":
        write_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "state": each.state,
                    "producer_id": each.producer_id,
                    "coordinator": each.coordinator,
                }
                for each in found
            ]
        )
    elif found:
        write_table(
            ["transactional id", "state", "producer", "coordinator"],
            [(each.transactional_id, each.state, each.producer_id, each.coordinator) for each in found],
        )
    else:
        say("There are no such transactions.")


@transactions.command()
@click.argument("transactional_id", metavar="ID")
@bootstrap_option
@format_option
def describe(transactional_id: str, bootstrap: str, format_: str) -> None:
    """Who has a transactional ID, and what its transaction writes to."""
    from tidelog.client.transactions import Transactions

    with connect(bootstrap) as cluster:
        found = Transactions(cluster).describe(transactional_id)
    open_ms = None if found.start_ms is None else _now_ms() - found.start_ms
    if format_ == "json":
        write_json(
            {
                "transactional_id": found.transactional_id,
                "state": found.state,
                "producer_id": found.producer_id,
                "producer_epoch": found.producer_epoch,
                "coordinator": found.coordinator,
                "timeout_ms": found.timeout_ms,
                "start_ms": found.start_ms,
                "partitions": [{"topic": topic, "partition": index} for topic, index in found.partitions],
            }
        )
        return
    write_table(
        ["", "value"],
        [
            ("state", found.state),
            ("producer", f"{found.producer_id}, epoch {found.producer_epoch}"),
            ("coordinator", f"broker {found.coordinator}"),
            ("timeout", f"{found.timeout_ms} ms"),
            ("open for", NONE if open_ms is None else f"{open_ms} ms"),
            ("partitions", ", ".join(map(str, found.partitions)) or NONE),
        ],
    )


@transactions.command()
@click.argument("transactional_id", metavar="[ID]", required=False)
@click.option("-t", "--topic", help="Abort a hanging transaction in this topic …")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="… this partition of it …")
@click.option("--start-offset", type=click.IntRange(min=0), help="… that begins here.")
@bootstrap_option
def abort(
    transactional_id: str | None, topic: str | None, partition: int | None, start_offset: int | None, bootstrap: str
) -> None:
    """Abort the open transaction of a transactional ID and fence its producer; or one that hangs in a partition."""
    from tidelog.client.transactions import Transactions

    place = (topic, partition, start_offset)
    if (transactional_id is None) is (place == (None, None, None)):
        raise click.UsageError("Give an ID, or --topic, --partition and --start-offset.")
    with connect(bootstrap) as cluster:
        client = Transactions(cluster)
        if transactional_id is not None:
            client.describe(transactional_id)  # One that does not exist would be made.
            client.terminate(transactional_id)
            say(f"The transaction of '{transactional_id}' is aborted, its producer fenced.")
            return
        if topic is None or partition is None or start_offset is None:
            raise click.UsageError("--topic, --partition and --start-offset belong together.")
        where = TopicPartition(TopicName(topic), PartitionIndex(partition))
        producer = client.open_at(where, Offset(start_offset))
        if producer is None:
            raise BadInput(f"No open transaction begins at offset {start_offset} of {where}.")
        client.abort(where, producer.producer_id, ProducerEpoch(producer.epoch), producer.coordinator_epoch)
        say(f"The transaction of producer {producer.producer_id} in {where} is aborted.")


@transactions.command("find-hanging")
@click.argument("topics", nargs=-1, metavar="[TOPIC]…")
@click.option(
    "--silent-for", type=click.IntRange(min=0), default=SILENT_SECONDS, show_default=True, metavar="SECONDS",
    help="Only transactions whose producer has written nothing for so long.",
)  # fmt: skip
@bootstrap_option
@format_option
def find_hanging(topics: tuple[str, ...], silent_for: int, bootstrap: str, format_: str) -> None:
    """Open transactions that no coordinator knows, in some topics or in all: readers wait there for ever."""
    from tidelog.cli.partition_lists import named_partitions
    from tidelog.client.admin import Admin
    from tidelog.client.transactions import Transactions

    with connect(bootstrap) as cluster:
        names = topics or tuple(topic.name for topic in Admin(cluster).list_topics())
        found = Transactions(cluster).find_hanging(named_partitions(cluster, names), _now_ms() - silent_for * SECOND_MS)
    rows = [(each.partition.topic, each.partition.partition, each.producer) for each in found]
    if format_ == "json":
        write_json(
            [
                {
                    "topic": topic,
                    "partition": index,
                    "start_offset": producer.transaction_start,
                    "producer_id": producer.producer_id,
                    "producer_epoch": producer.epoch,
                    "last_timestamp_ms": producer.last_timestamp_ms,
                }
                for topic, index, producer in rows
            ]
        )
    elif rows:
        write_table(
            ["topic", "partition", "begins at", "producer", "epoch"],
            [(topic, index, each.transaction_start, each.producer_id, each.epoch) for topic, index, each in rows],
        )
    else:
        say("No transaction hangs.")


def _now_ms() -> int:
    return int(time.time() * SECOND_MS)
