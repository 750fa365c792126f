"""From the definition of a pipeline to a query of Spark: sources as views, the transform, the sink.

`running.py` calls it. Everything in it is an ordinary call of PySpark; a pipeline can be left for a program of its own.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidelog.spark.pipeline.definition import (
    AVAILABLE_NOW,
    InvalidPipeline,
    PipelineDefinition,
    SinkDefinition,
    SourceDefinition,
)
from tidelog.spark.pipeline.lakes import is_table_name

RECORD_COLUMNS = ("key", "value", "headers", "topic", "partition")


def start_query(spark: SparkSession, definition: PipelineDefinition, checkpoint: Path) -> StreamingQuery:
    """Start a pipeline; it runs until it is stopped, or, if its trigger says so, to the end of what there is now."""
    rows = transformed(spark, definition)
    sink = definition.sink
    writer = rows.writeStream.queryName(definition.name).outputMode(sink.mode)
    writer = writer.option("checkpointLocation", str(checkpoint)).options(**sink.options)
    if definition.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=definition.trigger)
    if sink.format is not None:
        assert sink.path is not None
        writer = writer.format(sink.format).partitionBy(*sink.partition_by)
        return writer.toTable(sink.path) if is_table_name(sink.format, sink.path) else writer.start(sink.path)
    return writer.format("tidelog").options(**topic_options(definition)).start()


def topic_options(definition: PipelineDefinition) -> dict[str, str]:
    """What a sink that is a topic is told."""
    named = {} if definition.sink.topic is None else {"topic": definition.sink.topic}
    servers = {"kafka.bootstrap.servers": definition.bootstrap}
    return {**named, **definition.kafka_options(), **definition.sink.options, **servers}


def transformed(spark: SparkSession, definition: PipelineDefinition) -> DataFrame:
    """The rows that the sink gets."""
    frames = {source.name: _source_frame(spark, definition, source) for source in definition.sources}
    if definition.transform is not None:
        rows = definition.transform(spark, **frames)
    else:
        assert definition.sql is not None
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        rows = spark.sql(definition.sql)
    return rows if definition.sink.format is not None else as_records(rows, definition.sink)


def as_records(rows: DataFrame, sink: SinkDefinition) -> DataFrame:
    """Rows with a column "value" go as they are; of others the columns become a JSON object."""
    if "value" in rows.columns:
        return rows.select(*[name for name in RECORD_COLUMNS if name in rows.columns])
    inside = [name for name in rows.columns if name not in RECORD_COLUMNS]
    if not inside:
        raise InvalidPipeline("The transform gives no columns that could be the value of a record.")
    columns = [F.to_json(F.struct(*inside)).alias("value")]
    if sink.key is not None:
        if sink.key not in rows.columns:
            raise InvalidPipeline(f"key of the sink is '{sink.key}'; the transform gives {', '.join(rows.columns)}.")
        columns.append(F.col(sink.key).cast("string").alias("key"))
    columns += [F.col(name) for name in RECORD_COLUMNS if name in rows.columns and (name != "key" or not sink.key)]
    return rows.select(*columns)


def _source_frame(spark: SparkSession, definition: PipelineDefinition, source: SourceDefinition) -> DataFrame:
    reader = spark.read if source.table else spark.readStream
    options = {
        **definition.kafka_options(),
        "kafka.bootstrap.servers": definition.bootstrap,
        "subscribe": source.topic,
        "kafka.isolation.level": "read_committed",
    }
    if not source.table:
        options["startingOffsets"] = source.starting
    frame: DataFrame = reader.format("tidelog").options(**options).options(**source.options).load()
    if source.table:
        # What a compacted topic means: of each key the newest value, and none where that is null.
        newest = frame.groupBy("key").agg(F.max_by("value", F.struct("timestamp", "offset")).alias("value"))
        frame = newest.where("value is not null")
    if source.schema is not None:
        text = F.col("value").cast("string")
        kept = [F.col(name) for name in frame.columns if name not in ("value", "key")]
        parsed = F.from_json(text, source.schema).alias("fields")
        frame = frame.select(F.col("key").cast("string").alias("key"), text.alias("raw"), parsed, *kept)
        fields = frame.schema["fields"].dataType.fieldNames()  # type: ignore[attr-defined]
        own = [F.col(f"fields.{name}").alias(name) for name in fields]
        rest = [name for name in frame.columns if name != "fields" and name not in fields]
        frame = frame.select(*own, *rest)
    if source.watermark is not None:
        frame = frame.withWatermark(*source.watermark)
    if source.dedupe:
        frame = frame.dropDuplicatesWithinWatermark(list(source.dedupe))
    return frame
