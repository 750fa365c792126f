"""`tidelog log`: look into the files of logs, check them, mend them, bring archived ones back.

These commands work on folders, with or without a broker. Only `recover` and `restore` change anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tidelog.cli.dump import log as dump_log
from tidelog.cli.failures import BadInput
from tidelog.cli.options import KeyValue, bootstrap_option, format_option
from tidelog.cli.output import Json, say, show_bytes, write_json, write_table

if TYPE_CHECKING:
    from tidelog.log.audit import Finding

SOUND: Final = 0
DAMAGED: Final = 1

folders_argument = click.argument(
    "folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="FOLDER…"
)
topic_option = click.option("-t", "--topic", "topics", multiple=True, help="Only this topic; may be repeated.")


@click.group()
def log() -> None:
    """Look into log files, check and mend them, bring archived ones back.

    FOLDER is a log directory (all partitions) or the folder of one partition.
    """


log.add_command(dump_log, "dump")


@log.command()
@folders_argument
@topic_option
@click.option("--keys", is_flag=True, help="Read all records and say how their keys are spread.")
@click.option(
    "-c",
    "--config",
    "configs",
    type=KeyValue(),
    multiple=True,
    help="A setting of the broker, which no file here says.",
)
@format_option
def describe(
    folders: tuple[Path, ...],
    topics: tuple[str, ...],
    keys: bool,
    configs: tuple[tuple[str, str], ...],
    format_: str,
) -> int:
    """The partitions in FOLDER; of one partition its segments, and why each is kept."""
    from tidelog.cli.log_description import describe_partition, describe_partitions, is_partition, key_distribution

    everything: list[Json] = []
    for folder in folders:
        if not is_partition(folder):
            described = describe_partitions(folder, topics)
            everything.append(described)
            if format_ == "table":
                write_table(
                    [
                        "partition",
                        "segments",
                        "size",
                        "start",
                        "end",
                        "high watermark",
                        "flushed up to",
                        "compacted to",
                    ],
                    [
                        (
                            row["partition"],
                            row["segments"],
                            show_bytes(row["size_bytes"]),
                            row["start_offset"],
                            row["end_offset"],
                            _or_dash(row["high_watermark"]),
                            _or_dash(row["recovery_point"]),
                            _or_dash(row["compacted_up_to"]),
                        )
                        for row in described["partitions"]
                    ],
                    title=str(folder),
                )
            continue
        one = describe_partition(folder, dict(configs))
        if keys:
            one["keys"] = key_distribution(folder)
        everything.append(one)
        if format_ == "table":
            _show_partition(folder, one)
    if format_ == "json":
        write_json(everything)
    return SOUND


def _show_partition(folder: Path, one: Json) -> None:
    write_table(
        ["offsets", "size", "largest time", "offset index", "time index", "kept because"],
        [
            (
                f"{row['base_offset']}-{row['next_offset'] - 1}" if row["size_bytes"] else f"{row['base_offset']}-",
                show_bytes(row["size_bytes"]),
                row["largest_time"] or "-",
                row["offset_index_entries"],
                row["time_index_entries"],
                row["kept_because"],
            )
            for row in one["segments"]
        ],
        title=str(folder),
    )
    if "keys" not in one:
        return
    keys = one["keys"]
    say(
        f"{keys['records']} records: {keys['distinct_keys']} keys, {keys['without_key']} without a key, "
        f"{keys['tombstones']} tombstones, {keys['superseded']} superseded."
    )
    write_table(
        ["key", "records", "size"], [(row["key"], row["records"], show_bytes(row["bytes"])) for row in keys["largest"]]
    )


def _or_dash(value: int | None) -> object:
    return "-" if value is None else value


@log.command()
@folders_argument
@topic_option
@click.option("--quick", is_flag=True, help="Headers, checksums and indexes only: do not decode records.")
@format_option
def verify(folders: tuple[Path, ...], topics: tuple[str, ...], quick: bool, format_: str) -> int:
    """Check everything in FOLDER and change nothing. Exit code 1 when something is wrong."""
    from tidelog.cli.log_description import is_partition
    from tidelog.env.files import RealFiles
    from tidelog.log.audit import Severity, audit_partition
    from tidelog.log.audit_directory import audit_directory

    files = RealFiles()
    findings: list[Finding] = []
    checked = records = size = 0
    for folder in folders:
        path = str(folder)
        audits = (
            [audit_partition(files, path, with_records=not quick)]
            if is_partition(folder)
            else [
                audit
                for _, audit in audit_directory(
                    files, path, with_records=not quick, wanted=lambda found: not topics or found.topic in topics
                )
            ]
        )
        for audit in audits:
            findings += audit.findings
            checked += bool(audit.segments)
            records += sum(segment.records for segment in audit.segments)
            size += sum(segment.size for segment in audit.segments)
    wrong = [finding for finding in findings if finding.severity is not Severity.NOTED]
    if format_ == "json":
        write_json(
            {
                "sound": not wrong,
                "partitions": checked,
                "records": records,
                "size_bytes": size,
                "findings": [{**finding._asdict(), "severity": finding.severity.value} for finding in findings],
            }
        )
    else:
        if findings:
            write_table(
                ["severity", "kind", "file", "at", "what"],
                [
                    (found.severity.value, found.kind, found.path, _or_dash(found.position), found.text)
                    for found in findings
                ],
            )
        verdict = f"{len(wrong)} problems" if wrong else "sound"
        say(f"{checked} partitions, {records} records, {show_bytes(size)}: {verdict}.")
    return DAMAGED if wrong else SOUND


@log.command()
@folders_argument
@topic_option
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@format_option
def recover(folders: tuple[Path, ...], topics: tuple[str, ...], dry_run: bool, format_: str) -> int:
    """Do what a broker does after a crash, for every segment: cut logs where they stop being valid, make indexes again.

    No broker may be using FOLDER.
    """
    from tidelog.cli.log_recovery import recover_folder

    rows: list[Json] = []
    for folder in folders:
        rows += recover_folder(folder, topics, dry_run=dry_run)
    if format_ == "json":
        write_json(rows)
    else:
        write_table(
            ["partition", "end before", "end after", "cut off", "made again"],
            [
                (
                    row["partition"],
                    row["end_offset_before"],
                    row["end_offset_after"],
                    show_bytes(row["cut_bytes"]),
                    ", ".join(row["problems"]) or "-",
                )
                for row in rows
            ],
        )
        if dry_run:
            say("Nothing was changed (--dry-run).")
    return SOUND


@log.command()
@click.argument("archive", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--as", "topic", required=True, metavar="TOPIC", help="The topic to make, which must not exist yet.")
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A log directory of the broker that is to serve it.",
)
@bootstrap_option
@format_option
def restore(archive: Path, topic: str, data: Path, bootstrap: str, format_: str) -> int:
    """Bring archived segments back as a read-only topic, with their offsets and times.

    ARCHIVE is the folder of a topic in the archive. Every batch is checked. The broker goes on meanwhile.
    """
    from tidelog.cli.log_restoring import restore_topic

    rows = restore_topic(archive, topic, data, bootstrap)
    if format_ == "json":
        write_json({"topic": topic, "partitions": rows})
    else:
        write_table(
            ["partition", "start", "end", "segments", "size", "missing offsets"],
            [
                (
                    row["partition"],
                    row["start_offset"],
                    row["end_offset"],
                    row["segments"],
                    show_bytes(row["size_bytes"]),
                    ", ".join(f"{first}-{end - 1}" for first, end in row["missing"]) or "-",
                )
                for row in rows
            ],
        )
    if not rows:
        raise BadInput(f"{archive} holds no archived partition.")
    return SOUND
