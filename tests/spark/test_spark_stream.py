"""`readStream` and `writeStream` with our source and sink: checkpoints, limits, new partitions, exactly once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from harness.server import ServerProcess, StartBroker
from harness.spark_queries import run_to_end
from tidelog.client.admin import Admin, accepted
from tidelog.client.blocking.producer import Producer
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.client.core.partitioner import partition_of_key
from tidelog.client.groups import Groups
from tidelog.client.transactions import Transactions
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition

PARTITIONS = 3


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> ServerProcess:
    return start_broker({"num.partitions": str(PARTITIONS), "transaction.two.phase.commit.enable": "true"})


def create(servers: str, *topics: str) -> None:
    with Cluster(servers) as cluster:
        for answer in Admin(cluster).create_topics([NewTopic(TopicName(name), PARTITIONS) for name in topics]).values():
            accepted(answer)


def produce(servers: str, topic: str, first: int, count: int, partition: int | None = None) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(first, first + count):
            producer.send(topic, b"%d" % number, b"key %d" % number, partition=partition)


def stream(spark: SparkSession, servers: str, topic: str, **options: str) -> DataFrame:
    source = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    # Without the column "partition", which the sink would follow.
    return source.option("startingOffsets", "earliest").options(**options).load().select("key", "value")


def run(frame: DataFrame, servers: str, topic: str, checkpoint: Path, **options: str) -> StreamingQuery:
    """Everything that is there now, into a topic."""
    sink = frame.writeStream.format("tidelog").option("kafka.bootstrap.servers", servers).option("topic", topic)
    sink = sink.option("checkpointLocation", str(checkpoint)).options(**options).trigger(availableNow=True)
    return run_to_end(sink.start)


def values(spark: SparkSession, servers: str, topic: str, level: str = "read_committed") -> list[int]:
    source = spark.read.format("tidelog").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    rows = source.option("kafka.isolation.level", level).load().selectExpr("cast(value as string) as value").collect()
    return sorted(int(row.value) for row in rows)


def rows_of(query: StreamingQuery) -> list[int]:
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


@pytest.mark.req("R1", "S12")
def test_a_stream_goes_on_from_its_checkpoint_within_its_limits_and_tells_its_group(
    spark: SparkSession, broker: ServerProcess, topic: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    create(servers, topic, "limited-out")
    produce(servers, topic, 0, 250)
    frame = stream(spark, servers, topic, maxOffsetsPerTrigger="100", **{"kafka.group.id": "lag-of-spark"})

    first = run(frame, servers, "limited-out", tmp_path)
    produce(servers, topic, 250, 30)
    with Cluster(servers) as cluster:
        accepted_counts = Admin(cluster).create_partitions({TopicName(topic): PARTITIONS + 1})
        assert accepted_counts == {topic: None}
    produce(servers, topic, 280, 20, partition=PARTITIONS)
    second = run(frame, servers, "limited-out", tmp_path)

    assert rows_of(first) == [100, 100, 50]
    assert rows_of(second) == [50]
    assert values(spark, servers, "limited-out") == list(range(300))
    with Cluster(servers) as cluster:
        groups = Groups(cluster)
        lags = groups.lags(groups.offsets_of("lag-of-spark"))
    # Spark tells a source of a batch when the next one begins: the last one is not yet counted.
    assert sum(lag.committed.offset for lag in lags.values() if lag.committed is not None) >= 250


def test_keys_go_where_every_kafka_client_puts_them_and_rows_may_name_topic_partition_and_headers(
    spark: SparkSession, broker: ServerProcess, topic: str
) -> None:
    servers = broker.bootstrap_servers
    create(servers, topic, f"{topic}-2")
    rows = spark.range(200).selectExpr(
        "concat('key ', id) as key",
        "cast(id as string) as value",
        f"if(id < 150, '{topic}', '{topic}-2') as topic",
        "if(id >= 190, 1, null) as partition",
        "array(struct('id' as key, cast(cast(id as string) as binary) as value)) as headers",
    )

    rows.write.format("tidelog").mode("append").option("kafka.bootstrap.servers", servers).save()

    source = spark.read.format("tidelog").option("kafka.bootstrap.servers", servers).option("includeHeaders", "true")
    written = source.option("subscribe", f"{topic},{topic}-2").load().collect()
    assert len(written) == 200
    for row in written:
        number = int(bytes(row.value))
        assert row.topic == (topic if number < 150 else f"{topic}-2")
        expected = 1 if number >= 190 else partition_of_key(bytes(row.key), PARTITIONS)
        assert (row.partition, bytes(row.headers[0].value)) == (expected, b"%d" % number)


def test_rows_that_cannot_be_records_are_refused_before_anything_is_written(
    spark: SparkSession, broker: ServerProcess, topic: str
) -> None:
    def write(frame: DataFrame, **options: str) -> None:
        frame.write.format("tidelog").mode("append").option(
            "kafka.bootstrap.servers", broker.bootstrap_servers
        ).options(**options).save()

    with pytest.raises(Exception, match="Column 'value' is bigint; it has to be string or binary"):
        write(spark.range(1).withColumnRenamed("id", "value"), topic=topic)
    with pytest.raises(Exception, match="needs a column 'value'"):
        write(spark.range(1), topic=topic)
    with pytest.raises(Exception, match="Where to write"):
        write(spark.sql("select 'a' as value"))


@pytest.mark.req("R1")
def test_a_batch_that_spark_forgot_to_have_committed_is_not_written_twice(
    spark: SparkSession, broker: ServerProcess, topic: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    create(servers, topic, "once", "twice")
    produce(servers, topic, 0, 90)
    frame = stream(spark, servers, topic, maxOffsetsPerTrigger="40")
    for target, options in (("once", {"exactlyOnce": "true"}), ("twice", {"exactlyOnce": "false"})):
        assert rows_of(run(frame, servers, target, tmp_path / target, **options)) == [40, 40, 10]
        # As if the driver had died between the sink's commit and the checkpoint's.
        (tmp_path / target / "commits" / "2").unlink()
        (tmp_path / target / "commits" / ".2.crc").unlink()

        assert rows_of(run(frame, servers, target, tmp_path / target, **options)) == [10]

    assert values(spark, servers, "once") == list(range(90))
    assert len(values(spark, servers, "twice")) == 100
    with Cluster(servers) as cluster:
        assert Transactions(cluster).list_transactions(states=["Ongoing"]) == []


def test_a_batch_whose_task_fails_leaves_nothing_and_is_written_once_when_the_query_resumes(
    spark: SparkSession, broker: ServerProcess, topic: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    create(servers, topic, "after-failure")
    produce(servers, topic, 0, 60)
    armed = tmp_path / "armed"
    armed.touch()

    def fails_once(batches: Any) -> Any:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1 and armed.exists():
            raise RuntimeError("as if the executor had no memory left")

    frame = stream(spark, servers, topic).mapInArrow(fails_once, "key binary, value binary")

    with pytest.raises(StreamingQueryException, match="no memory left"):
        run(frame, servers, "after-failure", tmp_path / "checkpoint", exactlyOnce="true")
    armed.unlink()
    run(frame, servers, "after-failure", tmp_path / "checkpoint", exactlyOnce="true")

    # The other task may have been at work when its batch was aborted: what it left is ended with the next that commits.
    with Cluster(servers) as cluster:
        assert Transactions(cluster).list_transactions(states=["Ongoing"]) == []

    assert values(spark, servers, "after-failure") == list(range(60))
    assert len(values(spark, servers, "after-failure", "read_uncommitted")) >= 60


def test_records_deleted_under_a_stream_fail_it_with_their_offsets_and_it_resumes_when_loss_is_allowed(
    spark: SparkSession, broker: ServerProcess, topic: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    create(servers, topic, "after-loss")
    produce(servers, topic, 0, 10, partition=0)
    run(stream(spark, servers, topic), servers, "after-loss", tmp_path)
    produce(servers, topic, 10, 50, partition=0)
    place = TopicPartition(TopicName(topic), PartitionIndex(0))
    with Cluster(servers) as cluster:
        accepted(Admin(cluster).delete_records({place: Offset(30)})[place])

    with pytest.raises(StreamingQueryException, match=f"Offsets 10 to 29 of {topic}-0 are gone"):
        run(stream(spark, servers, topic), servers, "after-loss", tmp_path)
    run(stream(spark, servers, topic, failOnDataLoss="false"), servers, "after-loss", tmp_path)

    assert values(spark, servers, "after-loss") == [*range(10), *range(30, 60)]


def test_the_checkpoint_holds_offsets_as_sparks_own_connector_writes_them(
    spark: SparkSession, broker: ServerProcess, topic: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    create(servers, topic, "format-out")
    produce(servers, topic, 0, 5, partition=2)

    run(stream(spark, servers, topic), servers, "format-out", tmp_path)

    last = (tmp_path / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(last) == {topic: {"0": 0, "1": 0, "2": 5}}
