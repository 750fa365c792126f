"""`tidelog dump`: the code that reads and writes a message, and what is in log files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.failures import BadInput
from tidelog.cli.options import format_option
from tidelog.cli.output import Json, say, show_bytes, write_json, write_json_line, write_table

if TYPE_CHECKING:
    from tidelog.cli.log_files import StoredBatch
    from tidelog.wire.apis import Api


@click.group()
def dump() -> None:
    """Look into log files and generated codecs."""


@dump.command()
@click.argument("api", required=False)
@click.argument("version", type=int, required=False)
@click.option("--request/--response", "request", default=None, help="Only one of the two messages.")
@format_option
def codec(api: str | None, version: int | None, request: bool | None, format_: str) -> None:
    """The code that reads and writes an API's messages, such as `dump codec Fetch 13`; without API all there are."""
    from tidelog.wire.apis import APIS, request_class, response_class
    from tidelog.wire.compiler import source

    if api is None:
        rows = [(found.key, found.name, *found.versions) for found in APIS.values()]
        if format_ == "json":
            write_json([dict(zip(("key", "name", "first", "last"), row, strict=True)) for row in rows])
        else:
            write_table(["key", "api", "first version", "last version"], rows)
        return
    found = _api(api)
    chosen = found.versions.last if version is None else version
    classes = {True: request_class(found.key), False: response_class(found.key)}
    wanted = [classes[request]] if request is not None else list(classes.values())
    sources = {message.__name__: source(message, chosen) for message in wanted}
    if format_ == "json":
        write_json({"api": found.name, "version": chosen, "sources": sources})
        return
    for name, text in sources.items():
        _show_code(f"# {name} v{chosen}\n{text}\n")


@dump.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--records", is_flag=True, help="Show every record, not only batches.")
@format_option
def log(files: tuple[Path, ...], records: bool, format_: str) -> int:
    """What is in log files (…/00000000000000000000.log), indexes and snapshots, or in all logs of a folder."""
    from tidelog.cli.index_dump import INDEX_FILES
    from tidelog.cli.log_files import LogFile

    damaged = False
    for path in _files_in(files):
        if path.suffix in INDEX_FILES:
            entries = INDEX_FILES[path.suffix](path)
            if format_ == "json":
                for row in entries.rows:
                    write_json_line({"file": str(path), **dict(zip(entries.columns, row, strict=True))})
            else:
                write_table([name.replace("_", " ") for name in entries.columns], entries.rows, title=str(path))
            continue
        if path.suffix not in (".log", ".checkpoint"):
            raise BadInput(f"{path} is no file of a log.")
        stored = LogFile(path)
        rows = []
        for batch in stored.batches():
            damaged = damaged or not batch.is_valid
            if format_ == "json":
                write_json_line(_as_json(path, batch, records))
            elif records:
                rows += _record_rows(batch)
            else:
                rows.append(_batch_row(batch))
        if format_ == "table":
            columns = ["offset", "time", "key", "value", "headers"] if records else BATCH_COLUMNS
            write_table(columns, rows, title=str(path))
        if stored.trailing_bytes:
            damaged = True
            say(f"{path}: {stored.trailing_bytes} bytes at the end are no whole batch.")
    return int(damaged)


def _files_in(paths: tuple[Path, ...]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        found += sorted(path.glob("*.log")) if path.is_dir() else [path]
    return found


BATCH_COLUMNS = ["offsets", "records", "position", "size", "time", "codec", "producer", "sequence", "epoch", "crc"]


def _api(name: str) -> Api:
    from tidelog.wire.apis import APIS

    for found in APIS.values():
        if name.lower() == found.name.lower() or name == str(found.key):
            return found
    raise click.UsageError(f"There is no API '{name}'. `tidelog dump codec` lists them.")


def _show_code(text: str) -> None:
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.syntax import Syntax

    from tidelog.cli.output import console_for_results

    console_for_results().print(Syntax(text, "python", background_color="default"))


def _batch_row(batch: StoredBatch) -> tuple[object, ...]:
    from tidelog.client.moments import show_moment

    header = batch.header
    producer = f"{header.producer_id}/{header.producer_epoch}" if header.has_producer_id else "-"
    marks = "".join([" transactional" * header.is_transactional, " control" * header.is_control])
    return (
        f"{header.base_offset}-{header.last_offset}",
        header.records_count,
        batch.position,
        show_bytes(header.size_bytes),
        show_moment(header.max_timestamp),
        _codec(header.compression) + marks,
        producer,
        header.base_sequence,
        header.leader_epoch,
        "ok" if batch.is_valid else "WRONG",
    )


def _record_rows(batch: StoredBatch) -> list[tuple[object, ...]]:
    from tidelog.client.moments import show_moment

    return [
        (
            record.offset,
            show_moment(record.timestamp),
            _text(record.key) or "null",
            _text(record.value) or "null",
            ",".join(f"{name}={_text(value)}" for name, value in record.headers),
        )
        for record in batch.records()
    ]


def _as_json(path: Path, batch: StoredBatch, records: bool) -> Json:
    header = batch.header
    value: dict[str, Json] = {
        "file": str(path),
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records_count": header.records_count,
        "size_bytes": header.size_bytes,
        "max_timestamp": header.max_timestamp,
        "compression": _codec(header.compression),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "leader_epoch": header.leader_epoch,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
        "valid": batch.is_valid,
    }
    if records:
        value["records"] = [
            {
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": [[name, _text(content)] for name, content in record.headers],
            }
            for record in batch.records()
        ]
    return value


def _codec(number: int) -> str:
    from tidelog.wire.compression import Compression

    return Compression(number).name.lower()


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")
