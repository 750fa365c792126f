"""Orders that are large go to a topic of their own, each once; Spark finds the format "tidelog" by itself."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
servers = spark.conf.get("tidelog.bootstrap.servers")
sink = {"kafka.bootstrap.servers": servers, "topic": "orders-large", "exactlyOnce": "true"}

dp.create_sink("orders_large", "tidelog", sink)


@dp.temporary_view
def orders() -> DataFrame:
    source = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", servers)
    records = source.option("subscribe", "orders").option("startingOffsets", "earliest").load()
    fields = F.from_json(records.value.cast("string"), "order_id string, city string, amount double")
    return records.select(fields.alias("order")).select("order.*")


@dp.append_flow(target="orders_large")
def large_orders() -> DataFrame:
    large = spark.readStream.table("orders").where("amount >= 100")
    return large.select(
        F.col("order_id").alias("key"), F.to_json(F.struct("order_id", "city", "amount")).alias("value")
    )
