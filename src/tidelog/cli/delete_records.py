"""`tidelog delete-records`: let partitions begin later than they do."""

from __future__ import annotations

import click

from tidelog.cli.options import bootstrap_option, connect, format_option
from tidelog.cli.output import Json, say, write_json, write_table
from tidelog.model.ids import Offset


@click.command("delete-records")
@click.argument("topic")
@click.option(
    "-p", "--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this one; may be repeated."
)
@click.option("--before", type=click.IntRange(min=0), help="Delete the records before this offset.")
@click.option("--all", "everything", is_flag=True, help="Delete every record there is now.")
@bootstrap_option
@format_option
def delete_records(
    topic: str, partitions: tuple[int, ...], before: int | None, everything: bool, bootstrap: str, format_: str
) -> int:
    """Delete records of a TOPIC before an offset."""
    from tidelog.cli.consume import partitions_of
    from tidelog.client.admin import HIGH_WATERMARK, Admin
    from tidelog.client.errors import Rejected

    if (before is None) != everything:
        raise click.UsageError("Give one of --before and --all.")
    offset = HIGH_WATERMARK if before is None else Offset(before)
    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        wanted = partitions_of(admin, topic, partitions)
        answers = admin.delete_records(dict.fromkeys(wanted, offset))
    rows: list[Json] = []
    failed = False
    for partition in wanted:
        answer = answers[partition]
        if isinstance(answer, Rejected):
            failed = True
            say(f"Error: {partition}: {answer}")
        else:
            rows.append({"partition": partition.partition, "begin": int(answer)})
    if format_ == "json":
        write_json([{"topic": topic, **row} for row in rows])
    elif rows:
        write_table(["partition", "begins at"], [list(row.values()) for row in rows])
    return int(failed)
