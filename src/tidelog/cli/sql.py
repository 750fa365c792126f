"""`tidelog sql "SELECT …"`: topics as tables, by DuckDB for a quick look or by Spark for what does not fit one process.

Names of tables are names of topics or of views, which `--create-view` keeps. Keys and values of topics are text unless
`--bytes` says otherwise.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any, Final

import click

from tidelog.cli.failures import BadInput
from tidelog.cli.options import Moment, bootstrap_option, protection
from tidelog.cli.output import say, write_json, write_table

DUCKDB: Final = "duckdb"
SPARK: Final = "spark"


@click.command()
@click.argument("query", required=False)
@click.option("--engine", type=click.Choice([DUCKDB, SPARK]), default=DUCKDB, show_default=True)
@click.option("--as-of", type=Moment(), metavar="TIME", help="Topics as they were then: -1h, 2026-01-31T12:00, ms.")
@click.option("--bytes", "raw", is_flag=True, help="Keys and values as bytes, also where they are no text.")
@click.option("--create-view", metavar="NAME", help="Keep a view of --topic under this name.")
@click.option("--topic", help="The topic of the view.")
@click.option("--value-format", type=click.Choice(["json", "avro", "protobuf"]), help="How its values are written.")
@click.option("--schema", help="JSON: columns in SQL, as in 'id bigint, city string'. Avro: the schema.")
@click.option("--schema-file", help="The same in a file; Protobuf: what protoc --descriptor_set_out wrote.")
@click.option("--message", help="Protobuf: the full name of the message.")
@click.option("--wire-format", type=click.Choice(["plain", "confluent"]), default="plain", help="A registry's prefix?")
@click.option("--list-views", is_flag=True, help="Show the views.")
@click.option("--drop-view", metavar="NAME", help="Forget a view.")
@click.option("--views", "views_file", type=click.Path(path_type=Path), envvar="TIDELOG_VIEWS", show_envvar=True)
@bootstrap_option
@click.option("--format", "format_", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def sql(
    query: str | None,
    engine: str,
    as_of: int | None,
    raw: bool,
    create_view: str | None,
    topic: str | None,
    value_format: str | None,
    schema: str | None,
    schema_file: str | None,
    message: str | None,
    wire_format: str,
    list_views: bool,
    drop_view: str | None,
    views_file: Path | None,
    bootstrap: str,
    format_: str,
) -> None:
    """Ask topics: tidelog sql "SELECT key, count(*) FROM orders AS OF '-1h' GROUP BY key".

    AS OF 'time' or AS OF OFFSET n behind a table is the topic as it stood then; latest(orders) is the newest value of
    each key.
    """
    from tidelog.cli.sql_views import View, default_views_path, read_views, write_views

    if sum(map(bool, (query, create_view, list_views, drop_view))) != 1:
        raise BadInput("Give a query, or one of --create-view, --list-views, --drop-view.")
    path = views_file or default_views_path()
    views = read_views(path)
    if create_view is not None:
        if topic is None or value_format is None:
            raise BadInput("A view needs --topic and --value-format.")
        absolute = "" if schema_file is None else str(Path(schema_file).resolve())
        view = View(topic, value_format, schema or "", absolute, message or "", wire_format)
        view.value_format(create_view)
        write_views(path, {**views, create_view: view})
        say(f"View '{create_view}' of topic '{topic}' is kept in {path}.")
    elif drop_view is not None:
        if drop_view not in views:
            raise BadInput(f"There is no view '{drop_view}' in {path}.")
        write_views(path, {name: view for name, view in views.items() if name != drop_view})
        say(f"View '{drop_view}' is gone.")
    elif list_views:
        rows = [(name, view.topic, view.format, view.schema or view.schema_file) for name, view in views.items()]
        if not rows and format_ == "table":
            say(f"There are no views in {path}.")
            return
        _write(["view", "topic", "format", "schema"], rows, format_)
    else:
        from tidelog.cli.sql_engines import Asking, ask_duckdb, ask_spark
        from tidelog.cli.sql_query import parse_query

        assert query is not None
        ask = ask_duckdb if engine == DUCKDB else ask_spark
        found = ask(parse_query(query, engine), Asking(bootstrap, views, as_of, raw, protection()))
        _write(found.columns, found.rows, format_)


def _write(columns: list[str], rows: list[tuple[Any, ...]], format_: str) -> None:
    match format_:
        case "json":
            write_json([dict(zip(columns, map(_plain, row), strict=True)) for row in rows])
        case "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([_plain(cell) for cell in row] for row in rows)
        case _:
            write_table([name.upper() for name in columns], [[_shown(cell) for cell in row] for row in rows])


def _plain(cell: Any) -> Any:
    """What JSON can say."""
    match cell:
        case bytes() | bytearray():
            return bytes(cell).decode(errors="replace")
        case None | bool() | int() | float() | str():
            return cell
        case dict():
            return {str(key): _plain(value) for key, value in cell.items()}
        case tuple() if hasattr(cell, "asDict"):
            return {name: _plain(value) for name, value in cell.asDict().items()}
        case list() | tuple():
            return [_plain(each) for each in cell]
    return str(cell)


def _shown(cell: Any) -> Any:
    if cell is None:
        return ""
    return cell if isinstance(cell, int) and not isinstance(cell, bool) else str(_plain(cell))
