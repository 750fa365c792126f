"""The same options on the same topics, by our connector and by Spark's own: the same rows, columns and refusals."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from harness.other_sparks import CONNECTOR, jars_of, packages_of
from harness.server import ServerProcess, StartBroker
from harness.waiting import wait_until
from tidelog import Admin, NewTopic, Producer, TopicPartition, read_topic
from tidelog.model.ids import PartitionIndex, TopicName

PROGRAM: Final = Path(__file__).parent / "programs" / "same_options.py"
JOB_SECONDS_MAX: Final = 900
COMPACTION_SECONDS_MAX: Final = 60
FIRST_MS: Final = 1_700_000_000_000
FAILED: Final = "failed"
SIDES: Final = ("ours", "theirs")
QUICK_COMPACTION: Final = {"log.cleaner.backoff.ms": "200", "log.segment.delete.delay.ms": "100"}
COMPACTED: Final = {"cleanup.policy": "compact", "internal.segment.bytes": "8000", "min.cleanable.dirty.ratio": "0.01"}


def by_partition(*each: int) -> str:
    return json.dumps({"orders": {str(index): number for index, number in enumerate(each)}})


def times(*after_ms: int) -> str:
    return by_partition(*(FIRST_MS + each for each in after_ms))


ORDERS: Final = {"subscribe": "orders"}
PRICES: Final = {"subscribe": "prices"}
COMMITTED: Final = {"kafka.isolation.level": "read_committed"}
LOST: Final = {"startingOffsets": by_partition(0, 0, 0)}
READS: Final[dict[str, dict[str, str]]] = {
    "everything": {**ORDERS, "includeHeaders": "true"},
    "without headers": ORDERS,
    "offsets": {**ORDERS, "startingOffsets": by_partition(25, -2, 30), "endingOffsets": by_partition(-1, 22, 31)},
    "assigned": {"assign": '{"orders":[1]}'},
    "pattern": {"subscribePattern": "ord.*"},
    "times": {**ORDERS, "startingTimestamp": str(FIRST_MS + 90), "endingTimestamp": str(FIRST_MS + 100)},
    "times of partitions": {
        **ORDERS,
        "startingOffsetsByTimestamp": times(70, 80, 90),
        "endingOffsetsByTimestamp": times(75, 100_000, 110),
    },
    "young": {**ORDERS, "startingTimestamp": str(FIRST_MS * 2), "startingOffsetsByTimestampStrategy": "latest"},
    "split": {**ORDERS, "minPartitions": "7"},
    "limited": {**ORDERS, "maxRecordsPerPartition": "5"},
    "lost and allowed": {**ORDERS, **LOST, "failOnDataLoss": "false"},
    "committed": {"subscribe": "payments", **COMMITTED, "groupIdPrefix": "jobs"},
    "uncommitted": {"subscribe": "payments", "kafka.max.poll.records": "3", "kafka.fetch.max.wait.ms": "20"},
    "two topics": {"subscribe": "orders,payments", **COMMITTED},
    "compacted": PRICES,
    "compacted and split": {**PRICES, "minPartitions": "5"},
    "from a gap to a gap": {
        **PRICES,
        "startingOffsets": '{"prices":{"0":101}}',
        "endingOffsets": '{"prices":{"0":555}}',
    },
}
READS_REFUSED: Final[dict[str, dict[str, str]]] = {
    "too young": {**ORDERS, "startingTimestamp": str(FIRST_MS * 2)},
    "lost": {**ORDERS, **LOST},
    "from the end": {**ORDERS, "startingOffsets": "latest"},
    "to the beginning": {**ORDERS, "endingOffsets": "earliest"},
    "reset": {**ORDERS, "kafka.auto.offset.reset": "earliest"},
    "deserializer": {**ORDERS, "kafka.key.deserializer": "x"},
    "nothing": {},
    "two ways": {**ORDERS, "subscribePattern": "ord.*"},
    "some partitions": {**ORDERS, "startingOffsets": '{"orders":{"0":25}}'},
    "no such topic": {"subscribe": "nowhere"},
}
FROM_EARLIEST: Final = {"startingOffsets": "earliest"}
STREAMS: Final[dict[str, dict[str, str]]] = {
    "everything": {**ORDERS, **FROM_EARLIEST, "includeHeaders": "true", "maxOffsetsPerTrigger": "50"},
    "offsets": {**ORDERS, "startingOffsets": by_partition(25, -2, -1), "minPartitions": "5"},
    "times": {**ORDERS, "startingTimestamp": str(FIRST_MS + 90)},
    "lost and allowed": {**ORDERS, **LOST, "failOnDataLoss": "false"},
    "committed": {"subscribe": "payments", **FROM_EARLIEST, **COMMITTED},
}
STREAMS_REFUSED: Final[dict[str, dict[str, str]]] = {
    "lost": {**ORDERS, **LOST},
    "ending": {**ORDERS, **FROM_EARLIEST, "endingOffsets": "latest"},
}

KEY, VALUE = "cast(id as string) as key", "concat('value ', id) as value"
HEADERS: Final = (
    "if(id % 3 = 0, null, array(struct('n' as key, cast(cast(id as string) as binary) as value), "
    "struct('none' as key, cast(null as binary) as value))) as headers"
)
# Topics by what is written to them: those in which a null key chooses the partition are compared without it.
WRITES: Final[dict[str, dict[str, Any]]] = {
    "keys": {"columns": [KEY, VALUE], "options": {"topic": "keys"}},
    "bytes": {"columns": ["cast(cast(id as string) as binary) as key", "unhex('00ff') as value"], "topic": "bytes"},
    "headers": {"columns": [KEY, VALUE, HEADERS], "options": {"topic": "headers", "includeHeaders": "true"}},
    "topic column": {"columns": [KEY, VALUE, "if(id % 2 = 0, '{side}-even', '{side}-odd') as topic"]},
    "topic option": {"columns": [KEY, VALUE, "'nowhere' as topic"], "options": {"topic": "option"}},
    "partitions": {
        "columns": [
            "cast(null as string) as key",
            "if(id = 7, null, 'v') as value",
            "cast(id % 3 as int) as partition",
        ],
        "options": {"topic": "partitions"},
    },
    "some partitions": {
        "columns": [KEY, VALUE, "if(id % 2 = 0, cast(id % 3 as int), null) as partition"],
        "options": {"topic": "some-partitions"},
    },
    "settings": {
        "columns": [KEY, VALUE],
        "options": {"topic": "settings", "kafka.compression.type": "lz4", "kafka.send.buffer.bytes": "65536"},
    },
}
WRITES_REFUSED: Final[dict[str, dict[str, Any]]] = {
    "no value": {"columns": [KEY], "options": {"topic": "refused"}},
    "number": {"columns": ["id as value"], "options": {"topic": "refused"}},
    "number as key": {"columns": ["id as key", VALUE], "options": {"topic": "refused"}},
    "no topic": {"columns": [VALUE]},
    "null topic": {"columns": [VALUE, "cast(null as string) as topic"]},
    "long partition": {"columns": [VALUE, "id % 3 as partition"], "options": {"topic": "refused"}},
    "text headers": {"columns": [VALUE, "'n' as headers"], "options": {"topic": "refused"}},
    "serializer": {"columns": [VALUE], "options": {"topic": "refused", "kafka.key.serializer": "x"}},
    "overwrite": {"columns": [VALUE], "options": {"topic": "refused"}, "mode": "overwrite"},
}
WRITTEN: Final = ("keys", "bytes", "headers", "even", "odd", "option", "partitions", "some-partitions", "settings")


def plan_of(side: str) -> dict[str, Any]:
    """All cases; what is written goes to the side's own topics."""
    writes = {}
    for name, case in {**WRITES, **WRITES_REFUSED}.items():
        options = dict(case.get("options", {}))
        topic = options.get("topic", case.get("topic"))
        if topic is not None:
            options["topic"] = f"{side}-{topic}"
        columns = [column.replace("{side}", side) for column in case["columns"]]
        writes[name] = {**case, "columns": columns, "options": options}
    return {"read": {**READS, **READS_REFUSED}, "stream": {**STREAMS, **STREAMS_REFUSED}, "write": writes}


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> ServerProcess:
    return start_broker(QUICK_COMPACTION)


@pytest.fixture(scope="module")
def found(broker: ServerProcess, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What each side saw of the same topics, and made of its own."""
    folder = tmp_path_factory.mktemp("theirs")
    fill(broker.bootstrap_servers)
    with start_theirs(broker.bootstrap_servers, folder) as theirs:
        ours = program().run_all(spark, "tidelog", broker.bootstrap_servers, plan_of("ours"))
        out, errors = theirs.communicate(timeout=JOB_SECONDS_MAX)
    assert theirs.returncode == 0, out + errors[-8000:]
    yield {"ours": ours, "theirs": json.loads(out.strip().splitlines()[-1])}


@pytest.mark.req("R1")
@pytest.mark.parametrize("way", ["read", "stream"])
def test_both_connectors_give_the_same_rows_and_columns_for_the_same_options(found: Any, way: str) -> None:
    wanted = READS if way == "read" else STREAMS
    for name in wanted:
        assert found["ours"][way][name] == found["theirs"][way][name] != FAILED, name
    counts = {name: len(found["ours"][way][name]["rows"]) for name in wanted}
    assert counts["everything"] == 100 and counts["committed"] == 10 and counts["lost and allowed"] == 100
    if way == "stream":
        assert found["ours"][way]["everything"]["batches"] == [50, 50]
    else:
        assert counts["uncommitted"] == 20 and 10 <= counts["compacted"] < 600


@pytest.mark.req("R1")
def test_both_connectors_write_the_same_records_to_the_same_partitions(found: Any, broker: ServerProcess) -> None:
    for name in WRITES:
        assert found["ours"]["write"][name] == found["theirs"]["write"][name] == "written", name
    for topic in WRITTEN:
        ours, theirs = (records_of(broker.bootstrap_servers, f"{side}-{topic}") for side in SIDES)
        assert ours == theirs, topic
        assert ours, topic


@pytest.mark.req("R1")
def test_both_connectors_refuse_the_same(found: Any) -> None:
    refused = {"read": READS_REFUSED, "stream": STREAMS_REFUSED, "write": WRITES_REFUSED}
    for way, cases in refused.items():
        for side in SIDES:
            accepted = [name for name in cases if found[side][way][name] != FAILED]
            assert not accepted, (way, side, accepted)


def fill(servers: str) -> None:
    """Partitions that begin at 0, 0 and 20; transactions, of which every second one is aborted; compacted keys."""
    with Admin(bootstrap_servers=servers) as admin:
        new = [NewTopic(TopicName(f"{side}-{topic}"), 3) for side in SIDES for topic in (*WRITTEN, "refused")]
        new += [NewTopic(TopicName("orders"), 3), NewTopic(TopicName("payments"), 1)]
        admin.create_topics([*new, NewTopic(TopicName("prices"), 1, configs=COMPACTED)])
        with Producer(bootstrap_servers=servers) as producer:
            for number in range(120):
                headers = [("n", b"%d" % number), ("empty", b""), ("null", None)] if number % 2 else None
                key = None if number % 7 == 0 else b"%d" % number
                value = None if number == 50 else b"value %d" % number
                where, timestamp_ms = number % 3, FIRST_MS + number
                producer.send("orders", value, key, headers=headers, partition=where, timestamp_ms=timestamp_ms)
        admin.delete_records({TopicPartition(TopicName("orders"), PartitionIndex(2)): 20})
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        for number in range(600):
            producer.send("prices", b"%d" % number + b"." * 100, b"%d" % (number % 10)).result()
    with Producer(bootstrap_servers=servers, transactional_id="payments") as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            for _ in range(5):
                producer.send("payments", b"%d" % number, partition=0)
            producer.flush()
            (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    wait_until(lambda: len(read_topic("prices", servers).to_arrow()) < 300, COMPACTION_SECONDS_MAX)


def start_theirs(servers: str, folder: Path) -> subprocess.Popen[str]:
    jars = jars_of(CONNECTOR)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "SPARK_HOME"},
        "PYTHONPATH": packages_of(CONNECTOR),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, str(PROGRAM), servers, jars, str(folder), json.dumps(plan_of("theirs"))]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, cwd=folder, stdout=pipe, stderr=pipe, text=True)


def program() -> Any:
    """The same program as a module, for our side."""
    spec = importlib.util.spec_from_file_location("same_options", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def records_of(servers: str, topic: str) -> list[Any]:
    table = read_topic(topic, servers, columns=["partition", "key", "value", "headers"]).to_arrow()
    return sorted(table.to_pylist(), key=repr)
