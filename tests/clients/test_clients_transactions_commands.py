"""`kafka-transactions` and `tidelog transactions`: ours and Kafka's own on one broker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from drivers.topics import create_topic

from harness.apache_kafka import java_command
from harness.raw_client import RawClient
from harness.raw_transactions import FIRST, RawTransactions, last_stable_offset, producers_of, read_committed
from harness.server import ServerProcess, StartBroker
from tidelog.model.errors import ErrorCode

SECONDS_MAX = 120
JAVA = "org.apache.kafka.tools.TransactionsCommand"
TOPIC = "ledger"
# A moment, and how long ago it was: the latter changes between two calls.
DURATION = re.compile(r"(\d{13} )\d+")
OPEN_MS = 600_000
# In this order; none of them changes anything.
SAME = [
    "list",
    "list --duration-filter 600000",
    "list --transactional-id-pattern open-.*",
    "list --transactional-id-pattern [",
    "describe --transactional-id committed",
    "describe --transactional-id open-1",
    "describe --transactional-id nobody",
    f"describe-producers --topic {TOPIC} --partition 0",
    "find-hanging --broker-id 1 --max-transaction-timeout 0",
    "find-hanging",
    f"abort --topic {TOPIC} --partition 0 --producer-id 5",
    f"abort --topic {TOPIC} --partition 0 --start-offset 99",
]


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> ServerProcess:
    """A broker that does not verify what clients of the first protocol say: so transactions can be left hanging."""
    return start_broker({"transaction.partition.verification.enable": "false"})


@pytest.fixture(scope="module")
def client(broker: ServerProcess) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture(scope="module")
def ledger(broker: ServerProcess, client: RawClient) -> str:
    """A topic with a committed, an aborted and an open transaction in partition 0."""
    create_topic(broker.bootstrap_servers, TOPIC, 2)
    for name in ("committed", "aborted", "open-1"):
        producer = RawTransactions(client, name)
        assert producer.init(OPEN_MS).error_code == ErrorCode.NONE
        producer.write(TOPIC, 0, name.encode())
        if not name.startswith("open"):
            producer.end(commit=name == "committed")
    return TOPIC


def run(program: list[str], command: str, broker: ServerProcess) -> tuple[int, str]:
    """Exit code and standard output."""
    done = subprocess.run(
        [*program, "--bootstrap-server", broker.bootstrap_servers, *command.split()],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    return done.returncode, done.stdout


def kafka_transactions(command: str, broker: ServerProcess) -> tuple[int, str]:
    return run([sys.executable, "-m", "tidelog", "kafka-transactions"], command, broker)


def tidelog(broker: ServerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidelog", "transactions", *arguments, "-b", broker.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )


def without_durations(output: str) -> list[str]:
    return sorted(DURATION.sub(r"\1N", " ".join(line.split())) for line in output.splitlines())


@pytest.mark.req("J5")
@pytest.mark.parametrize("command", SAME)
def test_our_command_says_what_kafka_s_command_says(broker: ServerProcess, ledger: str, command: str) -> None:
    ours = kafka_transactions(command, broker)
    theirs = run(java_command(JAVA), command, broker)

    assert ours[0] == theirs[0]
    assert without_durations(ours[1]) == without_durations(theirs[1])


@pytest.mark.parametrize("program", ["ours", "kafka's"])
def test_a_hanging_transaction_is_found_and_aborted(
    broker: ServerProcess, client: RawClient, ledger: str, program: str
) -> None:
    topic = f"hanging-{'ours' if program == 'ours' else 'kafkas'}"
    create_topic(broker.bootstrap_servers, topic, 1)
    command = [sys.executable, "-m", "tidelog", "kafka-transactions"] if program == "ours" else java_command(JAVA)
    producer = RawTransactions(client, f"id of {topic}", FIRST)
    assert producer.init().error_code == ErrorCode.NONE
    assert producer.try_write(topic, 0, b"never added").error_code == ErrorCode.NONE
    start = producers_of(client, topic)[0].current_txn_start_offset
    assert last_stable_offset(client, topic) == start
    search = f"find-hanging --topic {topic} --max-transaction-timeout 0"
    found = kafka_transactions(search, broker)
    assert found == run(java_command(JAVA), search, broker)
    assert found[1].splitlines()[1].split()[:6] == [topic, "0", str(producer.producer_id), "0", "-1", str(start)]
    assert topic in tidelog(broker, "find-hanging", "--silent-for", "0").stdout
    assert topic not in tidelog(broker, "find-hanging").stdout

    assert run(command, f"abort --topic {topic} --partition 0 --start-offset {start}", broker) == (0, "")

    assert last_stable_offset(client, topic) == start + 2
    assert read_committed(client, topic) == []


@pytest.mark.parametrize("program", ["ours", "kafka's"])
def test_the_transaction_of_an_id_is_terminated_by_force(
    broker: ServerProcess, client: RawClient, ledger: str, program: str
) -> None:
    command = [sys.executable, "-m", "tidelog", "kafka-transactions"] if program == "ours" else java_command(JAVA)
    producer = RawTransactions(client, f"forced by {program}".replace(" ", "-"))
    assert producer.init().error_code == ErrorCode.NONE
    producer.write(ledger, 1, b"forced")

    code, _ = run(command, f"forceTerminateTransaction --transactionalId {producer.transactional_id}", broker)

    assert code == 0
    assert producer.describe().transaction_state == "Empty"
    assert producer.try_end(commit=True).error_code == ErrorCode.PRODUCER_FENCED


def test_tidelog_lists_and_describes_transactions(broker: ServerProcess, client: RawClient, ledger: str) -> None:
    rows = json.loads(tidelog(broker, "list", "--pattern", "open-.*", "--format", "json").stdout)
    assert [(row["transactional_id"], row["state"], row["coordinator"]) for row in rows] == [("open-1", "Ongoing", 1)]
    assert "committed" in tidelog(broker, "list", "--state", "CompleteCommit").stdout
    described = json.loads(tidelog(broker, "describe", "open-1", "--format", "json").stdout)
    assert described["partitions"] == [{"topic": ledger, "partition": 0}]
    assert f"{ledger}-0" in tidelog(broker, "describe", "open-1").stdout
    nobody = tidelog(broker, "describe", "nobody")
    assert nobody.returncode == 1
    assert "nobody" in nobody.stderr or "NOT_FOUND" in nobody.stderr


def test_tidelog_aborts_by_id_and_by_place(broker: ServerProcess, client: RawClient) -> None:
    topic = "aborted-by-tidelog"
    create_topic(broker.bootstrap_servers, topic, 1)
    first = RawTransactions(client, "aborted by id")
    assert first.init().error_code == ErrorCode.NONE
    first.write(topic, 0, b"one")
    assert tidelog(broker, "abort", first.transactional_id).returncode == 0
    assert first.describe().transaction_state == "Empty"

    second = RawTransactions(client, "aborted by place", FIRST)
    assert second.init().error_code == ErrorCode.NONE
    start = second.write(topic, 0, b"two")
    place = ["--topic", topic, "--partition", "0", "--start-offset"]
    assert tidelog(broker, "abort", *place, str(start)).returncode == 0
    assert last_stable_offset(client, topic) == start + 2
    assert tidelog(broker, "abort", *place, str(start)).returncode == 1, "nothing is open any more"
    assert tidelog(broker, "abort").returncode == 2
    assert tidelog(broker, "abort", "nobody").returncode == 1
