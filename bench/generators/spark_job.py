"""One Spark that reads and writes a topic in several ways, as often as asked, and prints how long each took.

Usage: spark_job.py '{"format": "tidelog", "servers": ..., "topic": ..., "records": ..., "jars": ..., "folder": ...}'.
The same program runs with our source and, in the Spark that it was built for, with Spark's own Kafka connector: it
imports nothing but PySpark unless the format is ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

NETWORK = "network"
SEGMENTS = "segments"

Job = Callable[[SparkSession, dict[str, Any], int], list[float]]


def session(plan: dict[str, Any]) -> SparkSession:
    settings = {
        "spark.driver.memory": plan["heap"],
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{plan['folder']}/warehouse",
    }
    if plan["format"] == "tidelog":
        from tidelog.spark import spark_session

        spark = spark_session("bench", master="local[2]", settings=settings)
    else:
        builder = SparkSession.builder.master("local[2]").config("spark.jars", plan["jars"])
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def source(reader: Any, plan: dict[str, Any], via: str = NETWORK) -> Any:
    reader = reader.format(plan["format"]).option("kafka.bootstrap.servers", plan["servers"])
    return (reader if via == NETWORK else reader.option("via", via)).option("subscribe", plan["topic"])


def timed(act: Callable[[], None]) -> list[float]:
    begin = time.monotonic()
    act()
    return [time.monotonic() - begin]


def batch(spark: SparkSession, plan: dict[str, Any], number: int, *, via: str = NETWORK) -> list[float]:
    return timed(lambda: source(spark.read, plan, via).load().write.format("noop").mode("overwrite").save())


def value_only(spark: SparkSession, plan: dict[str, Any], number: int, *, via: str = NETWORK) -> list[float]:
    reader = source(spark.read, plan, via)
    if plan["format"] == "tidelog":
        reader = reader.option("columns", "value")
    return timed(lambda: reader.load().select("value").write.format("noop").mode("overwrite").save())


def to_the_end(writer: Any, folder: str) -> None:
    writer.option("checkpointLocation", folder).trigger(availableNow=True).start().awaitTermination()


def stream(spark: SparkSession, plan: dict[str, Any], number: int) -> list[float]:
    frame = source(spark.readStream, plan).option("startingOffsets", "earliest").load()
    return timed(lambda: to_the_end(frame.writeStream.format("noop"), f"{plan['folder']}/stream-{number}"))


def sink(writer: Any, plan: dict[str, Any]) -> Any:
    writer = writer.format(plan["format"]).option("kafka.bootstrap.servers", plan["servers"])
    return writer.option("topic", plan["out"])


def write(spark: SparkSession, plan: dict[str, Any], number: int) -> list[float]:
    rows = spark.range(0, plan["records"], 1, 2)
    rows = rows.selectExpr("cast(id as string) as key", f"repeat('x', {plan['record_bytes']}) as value")
    return timed(lambda: sink(rows.write, plan).mode("append").save())


def stream_write(spark: SparkSession, plan: dict[str, Any], number: int, *, exactly_once: bool) -> list[float]:
    frame = source(spark.readStream, plan).option("startingOffsets", "earliest").load().select("key", "value")
    writer = sink(frame.writeStream, plan).option("exactlyOnce", str(exactly_once).lower())
    folder = f"{plan['folder']}/{'exactly' if exactly_once else 'at-least'}-{number}"
    return timed(lambda: to_the_end(writer, folder))


def latency(spark: SparkSession, plan: dict[str, Any], number: int) -> list[float]:
    """How old each record was, by the time that it was made, when the rows of its micro-batch were at hand."""
    ages: list[float] = []
    count_from = time.time() + plan["warm_up_seconds"]

    def look(rows: DataFrame, batch_id: int) -> None:
        made = [row[0] for row in rows.collect()]
        now = time.time()
        ages.extend(now - moment for moment in made if moment >= count_from)

    frame = source(spark.readStream, plan).option("startingOffsets", "latest").load()
    writer = frame.selectExpr("cast(timestamp as double)").writeStream.foreachBatch(look)
    query = writer.option("checkpointLocation", f"{plan['folder']}/latency-{number}").start()
    query.awaitTermination(plan["warm_up_seconds"] + plan["seconds"])
    query.stop()
    return ages


JOBS: dict[str, Job] = {
    "batch": batch,
    "value": value_only,
    "batch-segments": partial(batch, via=SEGMENTS),
    "value-segments": partial(value_only, via=SEGMENTS),
    "stream": stream,
    "write": write,
    "at-least-once": partial(stream_write, exactly_once=False),
    "exactly-once": partial(stream_write, exactly_once=True),
    "latency": latency,
}


def main(text: str) -> None:
    plan = json.loads(text)
    spark = session(plan)
    told: dict[str, list[float]] = {name: [] for name in plan["jobs"]}
    # The first rounds warm Java and Python up, and are not told.
    for number in range(plan["warm_up_rounds"] + plan["rounds"]):
        for name in plan["jobs"]:
            measured = JOBS[name](spark, plan, number)
            if number >= plan["warm_up_rounds"]:
                told[name] += measured
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
