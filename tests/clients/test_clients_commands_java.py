"""Our `kafka-*` commands and Kafka's own, side by side on the same broker: same output, same exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from harness.apache_kafka import java_command
from harness.server import ServerProcess

SECONDS_MAX: Final = 120
CLASSES: Final = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-storage": "kafka.tools.StorageTool",
}
# They look at files alone.
WITHOUT_BROKER: Final = ("kafka-dump-log", "kafka-storage")
ADDRESS_FIRST: Final = ("kafka-features",)


@dataclass(frozen=True, slots=True)
class Tools:
    """The same commands twice: Kafka's in a JVM, and ours."""

    bootstrap_servers: str
    folder: Path

    def java(self, command: str, stdin: str = "") -> tuple[int, str]:
        return self._run(java_command(CLASSES[command.split()[0]]), command, stdin)

    def ours(self, command: str, stdin: str = "") -> tuple[int, str]:
        return self._run([sys.executable, "-m", "tidelog", command.split()[0]], command, stdin)

    def _run(self, program: list[str], command: str, stdin: str) -> tuple[int, str]:
        """Exit code and standard output; what goes to standard error is for people and differs in wording."""
        name, *arguments = command.split()
        address = [] if name in WITHOUT_BROKER else ["--bootstrap-server", self.bootstrap_servers]
        done = subprocess.run(
            # The address comes last: kafka-cluster begins with a subcommand. That of kafka-features comes after it.
            [*program, *address, *arguments] if name in ADDRESS_FIRST else [*program, *arguments, *address],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            cwd=self.folder,
        )
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def tools(broker: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """A broker with a few topics and records, and a folder with the files that the commands name."""
    made = Tools(broker.bootstrap_servers, tmp_path_factory.mktemp("commands"))
    same = {"topic": "orders", "partition": 0, "offset": 1}
    write_json(made.folder / "twice.json", {"partitions": [same, same], "version": 1})
    (made.folder / "broken.json").write_text("{")
    assert made.ours("kafka-topics --create --topic orders --partitions 3")[0] == 0
    settings = "--config retention.ms=100000000 --config segment.bytes=1048576"
    assert made.ours(f"kafka-topics --create --topic my.topic_x --partitions 2 {settings}")[0] == 0
    lines = "".join(f"h:{number},g:x\tkey-{number % 5}\tvalue-{number}\n" for number in range(40))
    keyed = "--reader-property parse.key=true --reader-property parse.headers=true"
    assert made.ours(f"kafka-console-producer --topic orders {keyed}", lines) == (0, "")
    return made


# Commands that only look, so that it does not matter who goes first.
LOOKING: Final = [
    "kafka-topics --list",
    "kafka-topics --list --topic my.*",
    "kafka-topics --list --exclude-internal",
    "kafka-topics --describe",
    "kafka-topics --describe --topic orders",
    "kafka-topics --describe --topics-with-overrides --topic my.topic_x",
    "kafka-topics --describe --under-replicated-partitions",
    "kafka-topics --describe --at-min-isr-partitions --topic orders",
    "kafka-topics --describe --topic nowhere",
    "kafka-topics --describe --topic nowhere --if-exists",
    "kafka-topics --create --topic orders",
    "kafka-topics --create --topic orders --if-not-exists",
    "kafka-topics --create --topic bad/name",
    "kafka-topics --create --topic zero --partitions 0",
    "kafka-topics --create --topic odd --config nonsense=1",
    "kafka-topics --alter --topic nowhere --partitions 3",
    "kafka-topics --delete --topic nowhere",
    "kafka-topics --create",
    "kafka-topics --list --delete",
    "kafka-configs --describe --entity-type topics --entity-name my.topic_x",
    "kafka-configs --describe --topic my.topic_x --all",
    "kafka-configs --describe --topic nowhere",
    "kafka-configs --describe --entity-type brokers --entity-name 1",
    "kafka-configs --describe --entity-type brokers --entity-name 9",
    "kafka-configs --describe --entity-type nonsense",
    "kafka-configs --alter --topic orders --add-config nonsense=1",
    "kafka-configs --alter --topic orders --delete-config retention.ms",
    "kafka-get-offsets",
    "kafka-get-offsets --topic orders --time -2",
    "kafka-get-offsets --topic orders --time max-timestamp",
    "kafka-get-offsets --topic orders --time 99999999999999",
    "kafka-get-offsets --topic-partitions orders:1-,my.*:0",
    "kafka-get-offsets --topic orders --partitions 77",
    "kafka-get-offsets --time soon",
    "kafka-delete-records --offset-json-file twice.json",
    "kafka-delete-records --offset-json-file broken.json",
    "kafka-delete-records --offset-json-file nowhere.json",
    "kafka-log-dirs --describe --broker-list 1,9",
    "kafka-log-dirs --describe --topic-list orders",
    "kafka-broker-api-versions",
    "kafka-cluster cluster-id",
    "kafka-cluster list-endpoints",
    "kafka-cluster unregister --id 77",
    "kafka-features describe",
    "kafka-features upgrade --feature transaction.version=2 --feature group.version=9",
    "kafka-features upgrade --metadata 4.2 --dry-run",
    "kafka-features downgrade --feature transaction.version=1 --dry-run",
    "kafka-features version-mapping --release-version 4.0",
    "kafka-features feature-dependencies --feature eligible.leader.replicas.version=1 --feature group.version=1",
    "kafka-console-consumer --topic orders --partition 0 --offset 2 --timeout-ms 5000",
    "kafka-console-consumer --topic orders --from-beginning --max-messages 40 --formatter-property print.key=true "
    "--formatter-property print.timestamp=true --formatter-property print.headers=true "
    "--formatter-property print.partition=true --formatter-property print.offset=true "
    "--formatter-property print.epoch=true --formatter-property key.separator=|",
    "kafka-console-consumer --topic orders --partition 0 --offset earlier",
    "kafka-console-consumer --topic orders --offset 3",
    "kafka-console-producer --topic orders --request-required-acks 9",
]


@pytest.mark.req("D22", "M5", "M7", "M9")
@pytest.mark.parametrize("command", LOOKING)
def test_a_command_shows_what_kafka_s_own_shows(command: str, tools: Tools) -> None:
    assert comparable(*tools.ours(command)) == comparable(*tools.java(command))


# Commands that change something, each done once by Kafka's tool and once by ours, to topics of their own.
CHANGING: Final = [
    ("kafka-topics --create --topic {} --partitions 2 --replication-factor 1", ""),
    ("kafka-topics --alter --topic {} --partitions 4", ""),
    ("kafka-topics --alter --topic {} --partitions 4", ""),
    ("kafka-topics --describe --topic {}", ""),
    ("kafka-configs --alter --topic {} --add-config cleanup.policy=[compact,delete],retention.ms=1000000", ""),
    ("kafka-configs --describe --topic {}", ""),
    ("kafka-configs --alter --entity-type topics --entity-name {} --delete-config retention.ms,cleanup.policy", ""),
    ("kafka-configs --describe --topic {}", ""),
    ("kafka-console-producer --topic {} --reader-property parse.key=true --compression-codec", "k\tv\nk\tw\nl\tx\n"),
    ("kafka-console-producer --topic {} --reader-property parse.key=true", "no separator\n"),
    ("kafka-console-producer --topic {} --reader-property parse.key=true --request-required-acks 0", "k\tzero\n"),
    ("kafka-get-offsets --topic {}", ""),
    ("kafka-delete-records --offset-json-file {}.json", ""),
    ("kafka-delete-records --offset-json-file {}.json", ""),
    ("kafka-get-offsets --topic {} --time earliest", ""),
    ("kafka-topics --delete --topic {}", ""),
    ("kafka-topics --list", ""),
]


@pytest.mark.req("M4", "M6", "M8", "I3")
def test_commands_that_change_something_do_what_kafka_s_own_do(tools: Tools) -> None:
    for name in ("by-kafka", "by-us"):
        # Both tools have to put a key into the same partition, or the offsets below differ.
        entries = [{"topic": name, "partition": partition, "offset": -1} for partition in range(4)]
        write_json(tools.folder / f"{name}.json", {"partitions": entries, "version": 1})
    said = {"by-kafka": "", "by-us": ""}
    for command, stdin in CHANGING:
        for name, run in (("by-kafka", tools.java), ("by-us", tools.ours)):
            code, output = comparable(*run(command.format(name), stdin))
            said[name] += f"{command}: {code}\n{output}".replace(name, "TOPIC")
    assert without_ids(said["by-us"]) == without_ids(said["by-kafka"])


@pytest.fixture(scope="module")
def segments(broker: ServerProcess, tools: Tools) -> Iterator[list[Path]]:
    """Files of a topic with every codec, of a broker that has stopped, as after a clean end."""
    assert tools.ours("kafka-topics --create --topic dumped --config index.interval.bytes=100")[0] == 0
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        lines = "".join(f"{codec}-{number}\n" for number in range(50))
        assert tools.ours(f"kafka-console-producer --topic dumped --compression-codec {codec}", lines)[0] == 0
    broker.stop()
    yield sorted((broker.folder / "data/dumped-0").glob("0*"))
    broker.start()


@pytest.mark.parametrize(
    "options",
    ["", "--print-data-log", "--deep-iteration", "--print-data-log --skip-record-metadata", "--verify-index-only"],
)
def test_files_are_dumped_as_kafka_s_own_dumps_them(options: str, tools: Tools, segments: list[Path]) -> None:
    assert {path.suffix for path in segments} >= {".log", ".index", ".timeindex", ".snapshot"}
    command = f"kafka-dump-log --files {','.join(map(str, segments))} {options}"
    assert tools.ours(command) == tools.java(command)


def test_a_directory_that_we_format_is_one_for_kafka_too(tools: Tools) -> None:
    for name in ("by-kafka", "by-us"):
        (tools.folder / f"{name}.properties").write_text(
            "process.roles=broker,controller\nnode.id=3\ncontroller.quorum.voters=3@localhost:9093\n"
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
            f"log.dirs={tools.folder}/{name}\n"
        )
    code, cluster_id = tools.ours("kafka-storage random-uuid")
    assert (code, len(cluster_id)) == (0, 23)
    assert tools.ours("kafka-storage info -c by-us.properties") == (
        1,
        f"Found problem:\n  {tools.folder}/by-us does not exist\n\n",
    )
    for levels in ("--release-version 9.9", "--release-version 4.0", "--feature group.version=0", "--feature tide=1"):
        assert tools.ours(f"kafka-storage format -t {cluster_id.strip()} -c by-us.properties {levels}")[0] == 1
    levels = "--release-version 4.2"
    for name, run in (("by-us", tools.ours), ("by-kafka", tools.java)):
        assert run(f"kafka-storage format -t {cluster_id.strip()} -c {name}.properties {levels}")[0] == 0
    for name in ("by-us", "by-kafka"):
        info = tools.ours(f"kafka-storage info -c {name}.properties")
        assert info == tools.java(f"kafka-storage info -c {name}.properties")
        assert info[0] == 0
        again = f"kafka-storage format -t {cluster_id.strip()} -c {name}.properties"
        assert tools.ours(again)[0] == tools.java(again)[0] == 1
        assert tools.ours(again + " --ignore-formatted") == tools.java(again + " --ignore-formatted")


def comparable(code: int, output: str) -> tuple[int, str]:
    """The same in another order is the same: Kafka's tools print topics and settings in the order of hash tables."""
    lines = []
    for line in output.splitlines():
        if line.startswith("{"):
            value = json.loads(line)
            for broker in value["brokers"]:
                for directory in broker["logDirs"]:
                    directory["partitions"].sort(key=lambda partition: partition["partition"])
            line = json.dumps(value)
        head, found, settings = line.partition("Configs: ")
        lines.append(head + found + ",".join(sorted(settings.split(","))))
    return code, "\n".join(sorted(lines)) + "\n"


def without_ids(output: str) -> str:
    """Two topics have two ids."""
    return "\n".join(
        "\t".join(part for part in line.split("\t") if not part.startswith("TopicId: ")) for line in output.splitlines()
    )


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))
