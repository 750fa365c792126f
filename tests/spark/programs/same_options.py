"""Reads and writes topics in many ways through one connector, ours or Spark's own: the test runs both and compares.

Spark's own runs by the Spark that it was built for, in a process of its own: same_options.py BOOTSTRAP_SERVERS JARS
FOLDER PLAN, the last a JSON object of cases. Prints what came of each, or that it failed, as JSON in its last line.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

FAILED = "failed"
ROWS = 30
# Spark gives a Python process ten seconds to start and no way to give it more; a busy machine may need it.
SLOW_START = "failed to connect back"
TRIES = 8


def main(servers: str, jars: str, folder: str, plan: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "768m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    print(json.dumps(run_all(spark, "kafka", servers, json.loads(plan))))


def run_all(spark, connector, servers, plan):  # type: ignore[no-untyped-def]
    """What came of each case, as JSON can say it."""
    reads = {name: read(spark, connector, servers, options) for name, options in plan["read"].items()}
    streams = {name: stream(spark, connector, servers, options) for name, options in plan["stream"].items()}
    writes = {name: write(spark, connector, servers, case) for name, case in plan["write"].items()}
    return json.loads(json.dumps({"read": reads, "stream": streams, "write": writes}))


def read(spark, connector, servers, options):  # type: ignore[no-untyped-def]
    try:
        frame = spark.read.format(connector).option("kafka.bootstrap.servers", servers).options(**options).load()
        return {"schema": frame.schema.jsonValue(), "rows": rows_of(frame)}
    except Exception:
        return FAILED


def stream(spark, connector, servers, options):  # type: ignore[no-untyped-def]
    """Everything that there is now, with the number of rows of each batch."""
    for _ in range(TRIES):
        try:
            source = spark.readStream.format(connector).option("kafka.bootstrap.servers", servers)
            frame = source.options(**options).load()
            query = frame.writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
            query.awaitTermination()
            batches = [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
            return {"schema": frame.schema.jsonValue(), "rows": rows_of(spark.table("seen")), "batches": batches}
        except Exception as error:
            if SLOW_START not in str(error):
                break
    return FAILED


def write(spark, connector, servers, case):  # type: ignore[no-untyped-def]
    frame = spark.range(0, ROWS, 1, 2).selectExpr(*case["columns"])
    writer = frame.write.format(connector).option("kafka.bootstrap.servers", servers)
    try:
        writer.options(**case["options"]).mode(case.get("mode", "append")).save()
        return "written"
    except Exception:
        return FAILED


def rows_of(frame):  # type: ignore[no-untyped-def]
    """Every column of every row, in order."""
    columns = ["topic", "partition", "offset", "cast(key as string)", "cast(value as string)"]
    columns += ["cast(timestamp as double)", "timestampType"]
    columns += ["to_json(headers)"] if "headers" in frame.columns else []
    return sorted(list(row) for row in frame.selectExpr(*columns).collect())


if __name__ == "__main__":
    main(*sys.argv[1:])
