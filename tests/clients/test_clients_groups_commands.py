"""Commands about groups: `kafka-consumer-groups` beside Kafka's own on one broker, and `tidelog groups`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from drivers.topics import admin, committed, create_topic, fill

from harness.apache_kafka import java_command
from harness.group_members import Members, places_of, running, wait_for_shares
from harness.server import ServerProcess
from harness.waiting import wait_until

SECONDS_MAX = 120
WAIT_SECONDS_MAX = 40
JAVA = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
# Left alone it gives up after five seconds, in which a busy machine may not even have loaded its classes.
PATIENTLY = ("--timeout", "60000")
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


@dataclass(frozen=True, slots=True)
class Commands:
    """The same command twice, and our own."""

    bootstrap_servers: str
    folder: Path

    def java(self, arguments: str) -> tuple[int, str]:
        command = [*java_command(JAVA), "--bootstrap-server", self.bootstrap_servers, *PATIENTLY]
        return self._run(command, arguments)

    def ours(self, arguments: str) -> tuple[int, str]:
        program = [sys.executable, "-m", "tidelog", "kafka-consumer-groups"]
        return self._run([*program, "--bootstrap-server", self.bootstrap_servers], arguments)

    def tidelog(self, arguments: str, expected: int = 0) -> str:
        program = [sys.executable, "-m", "tidelog", "groups", *arguments.split(), "-b", self.bootstrap_servers]
        code, printed = self._run(program, "")
        assert code == expected, printed
        return printed

    def tidelog_json(self, arguments: str) -> Any:
        return json.loads(self.tidelog(f"{arguments} --format json"))

    def _run(self, program: list[str], arguments: str) -> tuple[int, str]:
        """Exit code and standard output."""
        done = subprocess.run(
            [*program, *arguments.split()], capture_output=True, text=True, timeout=SECONDS_MAX, cwd=self.folder
        )
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def server(start_broker: Callable[..., ServerProcess]) -> ServerProcess:
    return start_broker(SETTINGS)


@pytest.fixture(scope="module")
def members(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    yield from running(server.bootstrap_servers, tmp_path_factory.mktemp("members"))


@pytest.fixture(scope="module")
def commands(server: ServerProcess, members: Members, tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """Groups of each kind: empty, classic, static, of the new protocol, migrating, and one behind."""
    where = server.bootstrap_servers
    create_topic(where, "orders", 3)
    create_topic(where, "payments", 1)
    fill(where, "orders", 3, 90)
    fill(where, "payments", 1, 10)
    for group in ("idle", "left"):
        commit(server, group, {("orders", 0): 30, ("orders", 1): 20, ("orders", 2): 5})
    commit(server, "left", {("payments", 0): 3})
    classic = members.start_many(2, "confluent", "orders", "classic")
    static = members.start("confluent", "orders", "static", instance="instance-1")
    modern = members.start("confluent", "orders", "modern", protocol="consumer", strategy="uniform")
    mixed = [members.start("confluent", "orders", "mixed")]
    wait_for_shares(classic, places_of("orders", 3))
    mixed[0].wait_for_assignment(3)
    mixed.append(members.start("confluent", "orders", "mixed", protocol="consumer", strategy="range"))
    wait_for_shares(mixed, places_of("orders", 3))
    wait_for_shares([static], places_of("orders", 3))
    wait_for_shares([modern], places_of("orders", 3))
    for group in ("classic", "static", "modern", "mixed"):
        wait_until(
            lambda group=group: committed(where, group, "orders", 3) == {0: 30, 1: 30, 2: 30},  # type: ignore[misc]
            WAIT_SECONDS_MAX,
        )
    return Commands(where, tmp_path_factory.mktemp("commands"))


def commit(server: ServerProcess, group: str, offsets: dict[tuple[str, int], int]) -> None:
    client = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    client.commit(offsets=places, asynchronous=False)
    client.close()


@pytest.mark.req("A21", "K10", "L9")
@pytest.mark.parametrize(
    "arguments",
    [
        "--list",
        "--list --state",
        "--list --type --state stable,empty",
        "--list --type consumer",
        "--describe --group idle",
        "--describe --group left",
        "--describe --group classic",
        "--describe --group modern --offsets --verbose",
        "--describe --group nobody",
        "--describe --group classic --members --verbose",
        "--describe --group static --members",
        "--describe --group modern --members --verbose",
        "--describe --group mixed --members --verbose",
        "--describe --group idle --members",
        "--describe --group classic --state",
        "--describe --group modern --state --verbose",
        "--describe --all-groups --state",
        "--reset-offsets --group idle --topic orders --to-earliest",
        "--reset-offsets --group idle --topic orders:0,2 --shift-by -3 --dry-run",
        "--reset-offsets --group left --all-topics --to-offset 1000 --dry-run",
        "--reset-offsets --group idle --topic orders --topic payments --to-current --export --dry-run",
        "--reset-offsets --group idle --group left --all-topics --to-latest --export --dry-run",
        "--reset-offsets --group classic --topic orders --to-latest --execute",
        "--reset-offsets --group idle --topic nowhere --to-earliest --dry-run",
        "--reset-offsets --group idle --topic payments --shift-by 1 --dry-run",
        "--reset-offsets --group idle --topic orders --by-duration PT1H --dry-run",
        "--reset-offsets --group idle --topic orders --to-datetime 2040-01-01T00:00:00.000 --dry-run",
        "--reset-offsets --group idle --to-earliest",
        "--reset-offsets --group idle --topic orders --to-earliest --to-latest",
        "--delete-offsets --group classic --topic orders",
        "--delete-offsets --group nobody --topic orders:1",
        "--delete-offsets --group idle --topic nowhere",
        "--delete --group classic --group nobody",
        "--delete",
        "--describe --group classic --members --state",
        "--describe",
        "--list --state odd",
        "--validate-regex orders-(eu|us)",
    ],
)
def test_our_command_says_what_kafka_s_command_says(commands: Commands, arguments: str) -> None:
    code, printed = commands.ours(arguments)

    expected_code, expected = commands.java(arguments)

    assert (code, _without_order(arguments, printed)) == (expected_code, _without_order(arguments, expected))


@pytest.mark.parametrize(
    ("reset", "after"),
    [
        ("--topic orders --to-earliest", {0: 0, 1: 0, 2: 0}),
        ("--all-topics --to-latest", {0: 30, 1: 30, 2: 30}),
        ("--topic orders:1 --to-offset 7", {0: 30, 1: 7, 2: 5}),
        ("--topic orders:0,1 --shift-by -2", {0: 28, 1: 18, 2: 5}),
        ("--all-topics --by-duration P1D", {0: 0, 1: 0, 2: 0}),
        ("--from-file reset.csv", {0: 11, 1: 12, 2: 13}),
        ("--all-topics --to-current", {0: 30, 1: 20, 2: 5}),
    ],
)
def test_a_reset_is_carried_out(commands: Commands, server: ServerProcess, reset: str, after: dict[int, int]) -> None:
    commit(server, "moved", {("orders", 0): 30, ("orders", 1): 20, ("orders", 2): 5})
    (commands.folder / "reset.csv").write_text("orders,0,11\norders,1,12\norders,2,13\n")

    code, _ = commands.ours(f"--reset-offsets --group moved {reset} --execute")

    assert code == 0
    assert committed(server.bootstrap_servers, "moved", "orders", 3) == after


def test_offsets_and_groups_are_deleted(commands: Commands, server: ServerProcess) -> None:
    commit(server, "short-lived", {("orders", 0): 1, ("payments", 0): 2})

    assert (
        "orders          0          Successful"
        in commands.ours("--delete-offsets --group short-lived --topic orders:0")[1]
    )
    assert committed(server.bootstrap_servers, "short-lived", "orders", 1) == {}
    assert commands.ours("--delete --group short-lived") == (
        0,
        "Deletion of requested consumer groups ('short-lived') was successful.\n",
    )
    assert "short-lived" not in commands.ours("--list")[1]


def test_tidelog_lists_and_describes_groups(commands: Commands) -> None:
    listed = {row["group"]: row for row in commands.tidelog_json("list")}
    assert listed["classic"]["state"] == "Stable"
    assert listed["modern"]["type"] == "consumer"
    empty = {row["group"] for row in commands.tidelog_json("list --state empty")}
    assert {"idle", "left"} <= empty
    assert not empty & {"classic", "static", "modern", "mixed"}

    (described,) = commands.tidelog_json("describe left")
    assert (described["state"], described["members"], described["coordinator"]["id"]) == ("Empty", [], 1)
    assert [(row["topic"], row["partition"], row["offset"], row["lag"]) for row in described["offsets"]] == [
        ("orders", 0, 30, 0),
        ("orders", 1, 20, 10),
        ("orders", 2, 5, 25),
        ("payments", 0, 3, 7),
    ]
    (modern,) = commands.tidelog_json("describe modern")
    assert [len(member["partitions"]) for member in modern["members"]] == [3]
    assert modern["assignor"] == "uniform"
    assert "Group 'static': classic, Stable, 1 members" in commands.tidelog("describe static --members")
    assert "orders" in commands.tidelog("describe")
    commands.tidelog("describe nobody", expected=1)


@pytest.mark.parametrize("topic", ["shrinking"])
def test_the_lag_counts_only_what_is_there_and_is_never_negative(
    commands: Commands, server: ServerProcess, topic: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 2)
    fill(server.bootstrap_servers, topic, 2, 100)
    commit(server, "far", {(topic, 0): 10, (topic, 1): 90})
    client = admin(server.bootstrap_servers)
    (deleted,) = client.delete_records([TopicPartition(topic, 0, 40)]).values()
    assert deleted.result(WAIT_SECONDS_MAX).low_watermark == 40

    (described,) = commands.tidelog_json("describe far")

    rows = [(row["offset"], row["log_start"], row["log_end"], row["lag"]) for row in described["offsets"]]
    assert rows == [(10, 40, 50, 10), (90, 0, 50, 0)]
    commands.tidelog("delete far")


@pytest.mark.parametrize(
    ("where", "after"),
    [
        ("--to earliest", {0: 0, 1: 0, 2: 0}),
        ("--to latest", {0: 30, 1: 30, 2: 30}),
        ("--to 12", {0: 12, 1: 12, 2: 12}),
        ("--topic orders:1 --to 99999", {0: 30, 1: 30, 2: 5}),
        ("--shift-by -5", {0: 25, 1: 15, 2: 0}),
        ("--to current", {0: 30, 1: 20, 2: 5}),
        ("--to @-1h", {0: 0, 1: 0, 2: 0}),
        ("--to 2040-11-15T08:00", {0: 30, 1: 30, 2: 30}),
        ("--to PT2H", {0: 0, 1: 0, 2: 0}),
        ("--from-file again.csv", {0: 30, 1: 3, 2: 4}),
    ],
)
def test_tidelog_resets_offsets_when_it_is_told_to(
    commands: Commands, server: ServerProcess, where: str, after: dict[int, int]
) -> None:
    before = {0: 30, 1: 20, 2: 5}
    commit(server, "resetting", {("orders", partition): offset for partition, offset in before.items()})
    (commands.folder / "again.csv").write_text("orders,1,3\norders,2,4\n")

    commands.tidelog(f"reset-offsets resetting {where}")
    assert committed(server.bootstrap_servers, "resetting", "orders", 3) == before, "a dry run changed something"
    commands.tidelog(f"reset-offsets resetting {where} --execute")

    assert committed(server.bootstrap_servers, "resetting", "orders", 3) == after


def test_tidelog_exports_what_it_can_read_again(commands: Commands) -> None:
    assert commands.tidelog("reset-offsets left --to current --export") == (
        "orders,0,30\norders,1,20\norders,2,5\npayments,0,3\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("reset-offsets classic --to earliest --execute", 1),
        ("reset-offsets left", 2),
        ("reset-offsets left --to tomorrow", 2),
        ("reset-offsets left --to earliest --shift-by 1", 2),
        ("reset-offsets nobody --to earliest", 1),
        ("delete classic", 1),
        ("delete nobody", 1),
        ("delete-offsets left", 2),
        ("delete-offsets classic --topic orders", 1),
        ("delete-offsets left --topic nowhere", 1),
    ],
)
def test_tidelog_refuses_what_cannot_be(commands: Commands, arguments: str, code: int) -> None:
    commands.tidelog(arguments, expected=code)


@pytest.mark.req("K5", "K6", "M9")
def test_the_console_consumer_of_ours_reads_in_a_group(commands: Commands, server: ServerProcess, topic: str) -> None:
    create_topic(server.bootstrap_servers, topic, 2)
    fill(server.bootstrap_servers, topic, 2, 20)
    program = [
        sys.executable,
        "-m",
        "tidelog",
        "kafka-console-consumer",
        "--bootstrap-server",
        server.bootstrap_servers,
    ]

    def read(count: int) -> list[int]:
        arguments = ["--topic", topic, "--group", topic, "--from-beginning", "--max-messages", str(count)]
        done = subprocess.run(
            [*program, *arguments, "--timeout-ms", "20000"], capture_output=True, text=True, timeout=SECONDS_MAX
        )
        assert done.returncode == 0, done.stderr
        return [int(line) for line in done.stdout.splitlines()]

    assert sorted(read(8) + read(12)) == list(range(20))
    assert committed(server.bootstrap_servers, topic, topic, 2) == {0: 10, 1: 10}


def _without_order(arguments: str, printed: str) -> list[str] | str:
    """Lists of groups, and partitions of several topics, come in any order."""
    unordered = ("--list", "--export", "--all-topics")
    return sorted(printed.splitlines()) if any(name in arguments for name in unordered) else printed
