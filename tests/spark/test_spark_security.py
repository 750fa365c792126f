"""Source and sink on a cluster that asks for TLS and a password, by the options of Spark's own connector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from harness.secured_kafka import SecuredKafka
from tidelog import Admin


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    made = SecuredKafka(tmp_path_factory.mktemp("secured"))
    made.server.start()
    try:
        yield made
    finally:
        made.server.stop()


def options_of(secured: SecuredKafka, password: str | None = None) -> dict[str, str]:
    said = secured.sasl_properties() if password is None else secured.sasl_properties(password=password)
    return {"kafka.bootstrap.servers": secured.sasl_servers, **{f"kafka.{name}": value for name, value in said.items()}}


@pytest.mark.req("R1")
def test_rows_go_in_and_out_of_a_secured_cluster_in_batches_and_streams(
    spark: SparkSession, secured: SecuredKafka, tmp_path: Path
) -> None:
    with Admin(**secured.sasl("PLAIN")) as admin:
        for topic in ("tides", "tides-again"):
            admin.create_topic(topic, partitions=2)
    options = options_of(secured)
    rows = spark.range(100).selectExpr("cast(id as string) as key", "concat('level ', id) as value")

    rows.write.format("tidelog").options(**options).option("topic", "tides").mode("append").save()
    stream = spark.readStream.format("tidelog").options(**options, subscribe="tides", startingOffsets="earliest").load()
    writing = stream.select("key", "value").writeStream.format("tidelog").options(**options, topic="tides-again")
    query = writing.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)

    again = spark.read.format("tidelog").options(**options, subscribe="tides-again").load()
    found = again.selectExpr("cast(key as string)", "cast(value as string)").collect()
    assert sorted(map(tuple, found)) == sorted((str(number), f"level {number}") for number in range(100))


def test_a_wrong_password_is_said_in_one_sentence_that_does_not_repeat_it(
    spark: SparkSession, secured: SecuredKafka
) -> None:
    options = options_of(secured, "wr0ng-word")
    with pytest.raises(PySparkException, match="The broker refused the credentials") as refused:
        spark.read.format("tidelog").options(**options, subscribe="tides").load().count()
    assert "wr0ng-word" not in str(refused.value)
