"""`spark.read.format("tidelog")` against our broker and a real Apache Kafka: what is asked for comes, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from harness.server import ServerProcess, StartBroker
from tidelog.client.admin import Admin, accepted
from tidelog.client.blocking.producer import Producer
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.spark.batch_reader import BatchReader, FilteringBatchReader
from tidelog.spark.options import parse_read_options
from tidelog.spark.schema import full_schema
from tidelog.spark.session import FILTERS_SETTING
from tidelog.spark.tasks import RangePartition

RECORDS = 300
PARTITIONS = 3
FIRST_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> ServerProcess:
    return start_broker({"num.partitions": str(PARTITIONS)})


@pytest.fixture(scope="module")
def filled(broker: ServerProcess) -> str:
    """A topic whose records are known by their number: partition, offset and time follow from it."""
    fill(broker.bootstrap_servers, "filled")
    return "filled"


def fill(servers: str, topic: str, records: int = RECORDS) -> None:
    with Cluster(servers) as cluster:
        accepted(Admin(cluster).create_topics([NewTopic(TopicName(topic), PARTITIONS)])[TopicName(topic)])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(records):
            producer.send(
                topic,
                None if number == 7 else b"value %d" % number,
                None if number % 10 == 0 else b"key %d" % number,
                headers=[("n", b"%d" % number)] if number % 2 else None,
                partition=number % PARTITIONS,
                timestamp_ms=FIRST_MS + number,
            )


def reader(spark: SparkSession, servers: str, **options: str) -> Any:
    return spark.read.format("tidelog").option("kafka.bootstrap.servers", servers).options(**options)


def numbers(frame: DataFrame) -> list[int]:
    """Which records these are."""
    return sorted(row.offset * PARTITIONS + row.partition for row in frame.select("offset", "partition").collect())


def planned(servers: str, topic: str, filters: list[Any], **options: str) -> list[tuple[int, int, int]]:
    """What the driver would hand to tasks: partition, first offset, offset behind the last."""
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
    planning = FilteringBatchReader(parse_read_options(given, streaming=False), full_schema(False))
    assert isinstance(planning, BatchReader)
    list(planning.pushFilters(filters))
    tasks = [task.wanted for task in planning.partitions() if isinstance(task, RangePartition)]
    return [(task.partition.partition, task.start, task.end) for task in tasks if task is not None]


@pytest.mark.req("R1", "S12")
def test_every_record_comes_with_all_its_columns(spark: SparkSession, broker: ServerProcess, filled: str) -> None:
    frame = reader(spark, broker.bootstrap_servers, subscribe=filled, includeHeaders="true").load()

    rows = {row.offset * PARTITIONS + row.partition: row for row in frame.collect()}

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    assert sorted(rows) == list(range(RECORDS))
    assert all(row.topic == filled and row.timestampType == 0 for row in rows.values())
    assert bytes(rows[5].value) == b"value 5" and bytes(rows[5].key) == b"key 5"
    assert rows[7].value is None and rows[10].key is None
    assert [(header.key, bytes(header.value)) for header in rows[5].headers] == [("n", b"5")]
    assert rows[4].headers is None
    assert frame.selectExpr("min(cast(timestamp as double)) as first").first()["first"] == FIRST_MS / 1000  # type: ignore[index]


def test_offsets_and_times_bound_what_is_read(spark: SparkSession, broker: ServerProcess, filled: str) -> None:
    def read(**options: str) -> list[int]:
        return numbers(reader(spark, broker.bootstrap_servers, subscribe=filled, **options).load())

    by_offset = read(
        startingOffsets='{"filled":{"0":98,"1":-2,"2":99}}', endingOffsets='{"filled":{"0":-1,"1":1,"2":100}}'
    )
    by_time = read(startingTimestamp=str(FIRST_MS + 290), endingTimestamp=str(FIRST_MS + 293))
    times = f'{{"filled":{{"0":{FIRST_MS + 295},"1":{FIRST_MS + 295},"2":0}}}}'
    by_times = read(startingOffsetsByTimestamp=times, endingOffsets='{"filled":{"0":-1,"1":-1,"2":1}}')

    assert by_offset == [1, 294, 297, 299]
    assert by_time == [290, 291, 292]
    assert by_times == [2, 295, 297, 298]


def test_patterns_and_single_partitions_choose_what_is_read(
    spark: SparkSession, broker: ServerProcess, filled: str
) -> None:
    pattern = reader(spark, broker.bootstrap_servers, subscribePattern="fil+ed").load()
    nothing = reader(spark, broker.bootstrap_servers, subscribePattern="fil").load()
    assigned = reader(spark, broker.bootstrap_servers, assign='{"filled":[1]}').load()

    assert pattern.count() == RECORDS
    assert nothing.count() == 0
    assert numbers(assigned) == list(range(1, RECORDS, PARTITIONS))


def test_filters_narrow_what_is_fetched_and_still_give_the_right_rows(
    spark: SparkSession, broker: ServerProcess, filled: str
) -> None:
    from datetime import UTC, datetime

    from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, LessThan

    servers = broker.bootstrap_servers
    late = datetime.fromtimestamp(FIRST_MS / 1000 + 0.25, UTC)
    frame = reader(spark, servers, subscribe=filled).load()

    assert planned(servers, filled, [GreaterThan(("offset",), 96), LessThan(("offset",), 98)]) == [
        (0, 97, 98),
        (1, 97, 98),
        (2, 97, 98),
    ]
    assert planned(servers, filled, [EqualTo(("partition",), 1), GreaterThanOrEqual(("timestamp",), late)]) == [
        (1, 83, 100)
    ]
    assert numbers(frame.where("offset > 96 and offset < 98 and partition >= 1")) == [292, 293]
    assert numbers(frame.where(frame.timestamp >= late)) == list(range(250, RECORDS))
    assert numbers(frame.where("topic = 'other'")) == []


def test_only_the_columns_that_are_asked_for_are_made(spark: SparkSession, broker: ServerProcess, filled: str) -> None:
    chosen = reader(spark, broker.bootstrap_servers, subscribe=filled, columns="offset, value").load()
    by_schema = reader(spark, broker.bootstrap_servers, subscribe=filled).schema("value binary").load()

    assert chosen.columns == ["offset", "value"]
    assert by_schema.selectExpr("sum(length(value)) as bytes").first()["bytes"] == sum(  # type: ignore[index]
        len(b"value %d" % number) for number in range(RECORDS) if number != 7
    )


def test_ranges_are_split_for_more_tasks(spark: SparkSession, broker: ServerProcess, filled: str) -> None:
    frame = reader(spark, broker.bootstrap_servers, subscribe=filled, minPartitions="9").load()

    assert frame.rdd.getNumPartitions() == 9
    assert numbers(frame) == list(range(RECORDS))


def test_spark_finds_the_source_without_registration(broker: ServerProcess, filled: str, spark: SparkSession) -> None:
    other = spark.newSession()
    # A source that was registered would be refused: it pushes filters down, which this session does not allow.
    other.conf.set(FILTERS_SETTING, "false")

    frame = reader(other, broker.bootstrap_servers, subscribe=filled).load()

    assert numbers(frame.where("offset = 3")) == [9, 10, 11]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "nowhere"}, "Topic 'nowhere' does not exist."),
        ({"assign": '{"filled":[5]}'}, "filled"),
        ({}, "Exactly one of the options subscribe, subscribePattern, assign"),
        ({"subscribe": "filled", "startingOffsets": '{"filled":{"0":1}}'}, "no offset for filled-1"),
        ({"subscribe": "filled", "endingOffsets": '{"filled":{"0":1,"1":1,"2":999}}'}, "filled-2 ends at offset 100"),
        ({"subscribe": "filled", "startingTimestamp": str(FIRST_MS * 2)}, "has no record at or after"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_name(
    spark: SparkSession, broker: ServerProcess, filled: str, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PySparkException, match=sentence):
        reader(spark, broker.bootstrap_servers, **options).load().count()


def test_deleted_records_fail_the_job_with_partition_and_offset_unless_loss_is_allowed(
    spark: SparkSession, broker: ServerProcess, topic: str
) -> None:
    fill(broker.bootstrap_servers, topic)
    place = TopicPartition(TopicName(topic), PartitionIndex(1))
    with Cluster(broker.bootstrap_servers) as cluster:
        accepted(Admin(cluster).delete_records({place: Offset(40)})[place])
    start = f'{{"{topic}":{{"0":0,"1":10,"2":0}}}}'

    with pytest.raises(PySparkException, match=f"{topic}-1 begins at offset 40; offset 10 is gone"):
        reader(spark, broker.bootstrap_servers, subscribe=topic, startingOffsets=start).load().count()
    allowed = reader(
        spark, broker.bootstrap_servers, subscribe=topic, startingOffsets=start, failOnDataLoss="false"
    ).load()

    assert allowed.where("partition = 1").count() == 60


def test_a_dead_broker_is_named(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=r"Cannot connect to 127\.0\.0\.1:1"):
        reader(spark, "127.0.0.1:1", subscribe="t").load().count()


def test_aborted_transactions_are_left_out_when_only_committed_records_are_read(
    spark: SparkSession, broker: ServerProcess, topic: str
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for number, commits in enumerate([True, False, True]):
            producer.begin_transaction()
            for _ in range(10):
                producer.send(topic, b"%d" % number)
            producer.flush()
            if commits:
                producer.commit_transaction()
            else:
                producer.abort_transaction()

    def values(level: str) -> dict[str, int]:
        frame = reader(spark, broker.bootstrap_servers, subscribe=topic, **{"kafka.isolation.level": level}).load()
        return {
            row.value: row["count"]
            for row in frame.groupBy(frame.value.cast("string").alias("value")).count().collect()
        }

    assert values("read_committed") == {"0": 10, "2": 10}
    assert values("read_uncommitted") == {"0": 10, "1": 10, "2": 10}


@pytest.mark.req("R1")
def test_a_real_apache_kafka_is_read_and_written_the_same_way(
    spark: SparkSession, apache_kafka: ServerProcess, topic: str
) -> None:
    fill(apache_kafka.bootstrap_servers, topic)
    frame = reader(spark, apache_kafka.bootstrap_servers, subscribe=topic).load()

    frame.selectExpr("key", "upper(cast(value as string)) as value").write.format("tidelog").mode("append").option(
        "kafka.bootstrap.servers", apache_kafka.bootstrap_servers
    ).option("topic", f"{topic}-out").save()

    assert numbers(frame) == list(range(RECORDS))
    copied = reader(spark, apache_kafka.bootstrap_servers, subscribe=f"{topic}-out").load()
    assert copied.selectExpr("count(distinct key) as keys", "count(*) as all").collect() == [(270, RECORDS)]
