"""A job on Spark's own Kafka connector, run by the Spark that it was built for: batch and stream, in and out.

Usage: own_connector.py BOOTSTRAP_SERVERS JARS FOLDER. Prints one JSON object of what it saw as its last line.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

RECORDS = 2000


def main(servers: str, jars: str, folder: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "768m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    def reader(topic: str):  # type: ignore[no-untyped-def]
        return spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)

    rows = spark.range(RECORDS).selectExpr(
        "cast(id as string) as key",
        "concat('value ', id) as value",
        "array(struct('kind' as key, cast('test' as binary) as value)) as headers",
    )
    rows.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "spark-in").option(
        "includeHeaders", "true"
    ).save()
    read = reader("spark-in").option("includeHeaders", "true").load()
    batch = read.selectExpr(
        "count(*) as records",
        "count(distinct key) as keys",
        "count(distinct partition) as partitions",
        "min(cast(headers[0].value as string)) as header",
    ).first()
    bounded = reader("spark-in").option("startingOffsets", '{"spark-in":{"0":5,"1":-2,"2":-2}}')
    bounded = bounded.option("endingOffsets", '{"spark-in":{"0":8,"1":0,"2":0}}').load()

    def run_stream() -> int:
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        stream = source.option("subscribe", "spark-in").option("startingOffsets", "earliest")
        stream = stream.option("maxOffsetsPerTrigger", "900").load()
        sink = stream.selectExpr("key", "upper(cast(value as string)) as value").writeStream.format("kafka")
        sink = sink.option("kafka.bootstrap.servers", servers).option("topic", "spark-out")
        query = sink.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()
        return sum(1 for progress in query.recentProgress if progress["numInputRows"])

    first_batches = run_stream()
    rows.limit(10).write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", "spark-in").save()
    later_batches = run_stream()
    committed = reader("spark-out").option("kafka.isolation.level", "read_committed").load()
    out = committed.selectExpr(
        "count(*) as records", "count(distinct value) as values", "min(cast(value as string)) as least"
    ).first()
    seen = {
        "batch": batch.asDict(),
        "bounded": bounded.count(),
        "first batches": first_batches,
        "later batches": later_batches,
        "out": out.asDict(),
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
