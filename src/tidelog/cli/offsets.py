"""`tidelog offsets`: where the partitions of a topic begin and end."""

from __future__ import annotations

import click

from tidelog.cli.options import Moment, bootstrap_option, connect, format_option
from tidelog.cli.output import write_json, write_table
from tidelog.model.ids import TopicPartition


@click.command()
@click.argument("topic")
@click.option("--at", "moment", type=Moment(), help="Show the offset at a time, too: 2026-01-31T12:00, or -15m.")
@bootstrap_option
@format_option
def offsets(topic: str, moment: int | None, bootstrap: str, format_: str) -> None:
    """Where the partitions of a TOPIC begin and end."""
    from tidelog.client.admin import Admin
    from tidelog.client.core.described import EARLIEST, LATEST

    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        partitions = admin.partitions_of(topic)
        columns = {"begin": admin.offsets_at(partitions, EARLIEST), "end": admin.offsets_at(partitions, LATEST)}
        if moment is not None:
            columns["at"] = admin.offsets_at(partitions, moment)

    def row(partition: TopicPartition) -> dict[str, int]:
        found = {name: int(column[partition]) for name, column in columns.items()}
        return {"partition": partition.partition, **found, "records": found["end"] - found["begin"]}

    rows = [row(partition) for partition in partitions]
    if format_ == "json":
        write_json([{"topic": topic, **row} for row in rows])
    else:
        write_table(list(rows[0]), [list(row.values()) for row in rows])
