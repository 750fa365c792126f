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
from typing import Any

from pyspark.sql import SparkSession

Job = Callable[[SparkSession, dict[str, Any], int], None]


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


def source(reader: Any, plan: dict[str, Any]) -> Any:
    reader = reader.format(plan["format"]).option("kafka.bootstrap.servers", plan["servers"])
    return reader.option("subscribe", plan["topic"])


def batch(spark: SparkSession, plan: dict[str, Any], number: int) -> None:
    source(spark.read, plan).load().write.format("noop").mode("overwrite").save()


def value_only(spark: SparkSession, plan: dict[str, Any], number: int) -> None:
    reader = source(spark.read, plan)
    if plan["format"] == "tidelog":
        reader = reader.option("columns", "value")
    reader.load().select("value").write.format("noop").mode("overwrite").save()


def stream(spark: SparkSession, plan: dict[str, Any], number: int) -> None:
    frame = source(spark.readStream, plan).option("startingOffsets", "earliest").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", f"{plan['folder']}/stream-{number}")
    writer.trigger(availableNow=True).start().awaitTermination()


def write(spark: SparkSession, plan: dict[str, Any], number: int) -> None:
    rows = spark.range(0, plan["records"] // 4, 1, 2)
    rows = rows.selectExpr("cast(id as string) as key", f"repeat('x', {plan['record_bytes']}) as value")
    writer = rows.write.format(plan["format"]).mode("append").option("kafka.bootstrap.servers", plan["servers"])
    writer.option("topic", f"{plan['topic']}-{plan['format']}-out").save()


JOBS: dict[str, Job] = {"batch": batch, "value only": value_only, "stream": stream, "write": write}


def main(text: str) -> None:
    plan = json.loads(text)
    spark = session(plan)
    seconds: dict[str, list[float]] = {name: [] for name in plan["jobs"]}
    # The first round warms Java and Python up, and is not told.
    for number in range(plan["rounds"] + 1):
        for name in plan["jobs"]:
            begin = time.monotonic()
            JOBS[name](spark, plan, number)
            if number:
                seconds[name].append(time.monotonic() - begin)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(sys.argv[1])
