"""`tidelog sql "SELECT …"`: topics as tables, by DuckDB for a quick look or by Spark for what does not fit one process.

Names of tables are names of topics. Keys and values are text unless `--bytes` says otherwise.
"""

from __future__ import annotations

from typing import Any, Final

import click

from tidelog.cli.failures import BadInput
from tidelog.cli.options import bootstrap_option, format_option
from tidelog.cli.output import write_json, write_table

ENGINES: Final = ("duckdb", "spark")
# A query names this many topics at most: each one that Spark does not know costs it a try.
TOPICS_MAX: Final = 50


@click.command()
@click.argument("query")
@click.option("--engine", type=click.Choice(ENGINES), default=ENGINES[0], show_default=True)
@click.option("--as-of", metavar="TIME", help="Topics as they were then: -1h, 2026-01-31T12:00, milliseconds.")
@click.option("--bytes", "raw", is_flag=True, help="Keys and values as bytes, also where they are no text.")
@bootstrap_option
@format_option
def sql(query: str, engine: str, as_of: str | None, raw: bool, bootstrap: str, format_: str) -> None:
    """Ask topics: tidelog sql "SELECT key, count(*) FROM orders GROUP BY key"."""
    ask = _ask_duckdb if engine == ENGINES[0] else _ask_spark
    columns, rows = ask(query, bootstrap, as_of, raw)
    if format_ == "json":
        write_json([dict(zip(columns, map(_plain, row), strict=True)) for row in rows])
    else:
        write_table([name.upper() for name in columns], [[_shown(cell) for cell in row] for row in rows])


Answer = tuple[list[str], list[tuple[Any, ...]]]


def _ask_duckdb(query: str, bootstrap: str, as_of: str | None, raw: bool) -> Answer:
    try:
        import duckdb  # type: ignore[import-not-found,unused-ignore]
        import pyarrow as pa  # type: ignore[import-untyped]
    except ImportError:
        raise BadInput("A quick look needs DuckDB and Arrow: pip install duckdb 'tidelog[arrow]'.") from None
    from tidelog.client.moments import parse_moment
    from tidelog.client.tables import read_topic

    until = None if as_of is None else parse_moment(as_of)
    with duckdb.connect() as connection:
        try:
            for topic in sorted(connection.get_table_names(query)):
                table = read_topic(topic, bootstrap, until=until, text=not raw, read_committed=True)
                connection.register(topic, table.to_arrow())
            found = connection.execute(query)
            return [column[0] for column in found.description], found.fetchall()
        except duckdb.Error as error:
            raise BadInput(str(error)) from None
        except pa.ArrowInvalid:
            raise BadInput("A key or value is no text: add --bytes.") from None


def _ask_spark(query: str, bootstrap: str, as_of: str | None, raw: bool) -> Answer:
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise BadInput("This needs Spark: pip install 'tidelog[spark]'.")
    from pyspark.errors import AnalysisException

    from tidelog.client.moments import parse_moment
    from tidelog.spark.session import spark_session

    spark = spark_session("tidelog-sql", master="local[2]")
    spark.sparkContext.setLogLevel("OFF")
    options = {"kafka.bootstrap.servers": bootstrap, "kafka.isolation.level": "read_committed"}
    if as_of is not None:
        options["endingTimestamp"] = str(parse_moment(as_of))
    try:
        for _ in range(TOPICS_MAX):
            try:
                found = spark.sql(query)
                return found.columns, [tuple(row) for row in found.collect()]
            except AnalysisException as error:
                topic = _missing_table(error)
                if topic is None:
                    raise BadInput(str(error).splitlines()[0]) from None
                frame = spark.read.format("tidelog").options(**options).option("subscribe", topic).load()
                if not raw:
                    frame = frame.withColumns({name: frame[name].cast("string") for name in ("key", "value")})
                frame.createOrReplaceTempView(f"`{topic}`")
        raise BadInput(f"The query names more than {TOPICS_MAX} topics.")
    finally:
        spark.stop()


def _missing_table(error: Any) -> str | None:
    """The name of a table that Spark does not know, if that is what is wrong."""
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return None
    return str(error.getMessageParameters()["relationName"]).strip("`")


def _plain(cell: Any) -> Any:
    if isinstance(cell, bytes | bytearray):
        return bytes(cell).decode(errors="replace")
    return cell if cell is None or isinstance(cell, bool | int | float | str | list | dict) else str(cell)


def _shown(cell: Any) -> str:
    return "" if cell is None else str(_plain(cell))
