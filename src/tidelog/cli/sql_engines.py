"""What runs a query over topics: DuckDB in this process, over Arrow tables, or Spark, over its source.

Each registers what a table of the query stands for (a topic or a view, as of some time, all of it or the newest value
of each key) and runs the text. `cli/sql.py` calls them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidelog.cli.failures import BadInput, naming_topic
from tidelog.cli.sql_query import Query, TableUse
from tidelog.cli.sql_views import View
from tidelog.client.moments import parse_moment
from tidelog.client.typed.format import InvalidFormat

# What a view has beside the fields of its values; a field of the same name takes it, and the topic's is called _name.
BESIDE_VALUES: Final = ("key", "partition", "offset", "timestamp")
EVERYTHING: Final = "tidelog_everything"
LATEST_SQL: Final = f"""
    SELECT * EXCLUDE (tidelog_age)
    FROM (
        SELECT *, row_number() OVER (PARTITION BY "key" ORDER BY "offset" DESC) AS tidelog_age
        FROM {EVERYTHING} WHERE "key" IS NOT NULL
    )
    WHERE tidelog_age = 1 AND "value" IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query found."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Asking:
    """Where topics are, and how they are shown."""

    bootstrap: str
    views: Mapping[str, View]
    as_of_ms: int | None
    is_raw: bool
    # How connections are protected, by Kafka's names.
    protection: Mapping[str, str] = field(default_factory=dict, repr=False)

    def moment_ms(self, use: TableUse) -> int | None:
        """Before when the table is asked; what its own AS OF says goes before what holds for all."""
        if use.before_offset is not None:
            return None
        if use.before_time is None:
            return self.as_of_ms
        try:
            return parse_moment(use.before_time)
        except ValueError as error:
            raise BadInput(str(error)) from None


def ask_duckdb(query: Query, asking: Asking) -> Answer:
    try:
        import duckdb  # type: ignore[import-not-found,unused-ignore]
        import pyarrow as pa  # type: ignore[import-untyped]
    except ImportError:
        raise BadInput("A quick look needs DuckDB and Arrow: pip install 'tidelog[sql]'.") from None
    with duckdb.connect() as connection:
        # Times are shown in the zone that they are asked in.
        connection.execute("SET TimeZone = 'UTC'")
        try:
            for name, use in query.tables.items():
                connection.register(name, _table(use, asking, connection))
            found = connection.execute(query.text)
            return Answer([column[0] for column in found.description], found.fetchall())
        except duckdb.Error as error:
            raise BadInput(str(error)) from None
        except pa.ArrowInvalid:
            raise BadInput("A key or value is no text: add --bytes.") from None


def _table(use: TableUse, asking: Asking, connection: Any) -> Any:
    """A topic or view as an Arrow table."""
    from tidelog.client.tables import read_topic

    view = asking.views.get(use.name)
    topic = use.name if view is None else view.topic
    with naming_topic(topic):
        table = read_topic(
            topic,
            asking.bootstrap,
            until=asking.moment_ms(use),
            end=use.before_offset,
            text=view is None and not asking.is_raw,
            read_committed=True,
            properties=asking.protection,
        ).to_arrow()
    if view is not None:
        table = _typed(table, use.name, view, asking.is_raw)
    if use.is_latest:
        connection.register(EVERYTHING, table)
        table = connection.sql(LATEST_SQL).to_arrow_table()
        connection.unregister(EVERYTHING)
    return table if view is None else _flat(table)


def _typed(table: Any, name: str, view: View, is_raw: bool) -> Any:
    """The same table with the values as a struct."""
    import pyarrow as pa

    from tidelog.cli.sql_types import struct_of
    from tidelog.client.typed.decoding import decode_values, decoder_of
    from tidelog.client.typed.format import JSON

    format_ = view.value_format(name)
    try:
        decoder = decoder_of(format_, struct_of(format_.schema) if format_.name == JSON else None)
    except InvalidFormat as error:
        raise BadInput(f"View '{name}': {error}.") from None
    parts = table.column("value").chunks
    values = [decode_values(decoder, part, format_.has_registry_prefix).values for part in parts]
    made = table.set_column(table.schema.get_field_index("value"), "value", pa.chunked_array(values, decoder.type))
    key = table.column("key") if is_raw else table.column("key").cast(pa.string())
    return made.set_column(made.schema.get_field_index("key"), "key", key)


def _flat(table: Any) -> Any:
    """A view's columns: the fields of the values, then what a topic has beside them."""
    fields = {field.name for field in table.schema.field("value").type}
    beside = table.select(BESIDE_VALUES).rename_columns([beside_name(name, fields) for name in BESIDE_VALUES])
    flat = table.select(["value"]).flatten()
    flat = flat.rename_columns([name.removeprefix("value.") for name in flat.column_names])
    for name in beside.column_names:
        flat = flat.append_column(name, beside.column(name))
    return flat


def beside_name(name: str, fields: Iterable[str]) -> str:
    return f"_{name}" if name in fields else name


def ask_spark(query: Query, asking: Asking) -> Answer:
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise BadInput("This needs Spark: pip install 'tidelog[spark]'.")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from tidelog.spark.session import register

    running = SparkSession.getActiveSession()
    if running is None:
        spark = _start_spark()
    else:
        # A Spark that somebody else started is theirs: only a session of it is ours.
        spark = running.newSession()
        register(spark)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        if running is None:
            spark.sparkContext.setLogLevel("OFF")
        for name, use in query.tables.items():
            _frame(spark, use, asking).createOrReplaceTempView(name)
        found = spark.sql(query.text)
        return Answer(found.columns, [tuple(row) for row in found.collect()])
    except PySparkException as error:
        raise BadInput(_sentence(str(error))) from None
    finally:
        for name in query.tables:
            spark.catalog.dropTempView(name)
        if running is None:
            spark.stop()


def _start_spark() -> Any:
    """A Spark that says nothing but its answers; BadInput with a sentence if it does not start."""
    from pyspark.errors import PySparkException

    from tidelog.spark.java import NoJava
    from tidelog.spark.pipeline.told import ended_by, essence
    from tidelog.spark.session import spark_session
    from tidelog.spark.words import words_into

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "spark.log"
        try:
            with words_into(log):
                return spark_session("tidelog-sql", master="local[2]", settings={"spark.log.level": "ERROR"})
        except NoJava as error:
            raise BadInput(str(error)) from None
        except PySparkException as error:
            raise BadInput(f"Spark did not start: {ended_by(log.read_text()) or essence(str(error))}") from None


def _frame(spark: Any, use: TableUse, asking: Asking) -> Any:
    """A topic or view as a DataFrame."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    view = asking.views.get(use.name)
    options = {"kafka.bootstrap.servers": asking.bootstrap, "kafka.isolation.level": "read_committed"}
    options |= {f"kafka.{name}": value for name, value in asking.protection.items()}
    options["subscribe"] = use.name if view is None else view.topic
    moment_ms = asking.moment_ms(use)
    if moment_ms is not None:
        options["endingTimestamp"] = str(moment_ms)
    if view is not None:
        view.value_format(use.name)
        told = {
            "valueFormat": view.format,
            "valueSchema": view.schema,
            "valueSchemaFile": view.schema_file,
            "valueMessage": view.message,
            "valueWireFormat": view.wire_format,
        }
        options |= {name: value for name, value in told.items() if value}
    frame = spark.read.format("tidelog").options(**options).load()
    if use.before_offset is not None:
        frame = frame.where(f.col("offset") < use.before_offset)
    if not asking.is_raw:
        frame = frame.withColumn("key", frame["key"].cast("string"))
        if view is None:
            frame = frame.withColumn("value", frame["value"].cast("string"))
    if use.is_latest:
        newest_first = Window.partitionBy("key").orderBy(f.desc("offset"))
        ranked = frame.where("key is not null").withColumn("tidelog_age", f.row_number().over(newest_first))
        frame = ranked.where("tidelog_age = 1 and value is not null").drop("tidelog_age")
    if view is None:
        return frame
    fields = frame.schema["value"].dataType.fieldNames()
    return frame.select("value.*", *[frame[name].alias(beside_name(name, fields)) for name in BESIDE_VALUES])


def _sentence(said: str) -> str:
    """What is wrong, of all that Spark says about it: the last line of a Python error, or the first of its own."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("tidelog.") and ": " in line]
    return ours[-1].partition(": ")[2] if ours else lines[0]
