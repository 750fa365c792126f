"""`kafka-configs` for groups and quotas, and `kafka-leader-election`: ours and Kafka's own on one broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from drivers.topics import create_topic

from harness.apache_kafka import java_command
from harness.server import ServerProcess

SECONDS_MAX = 120
CLASSES = {
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
}
GROUP = "--entity-type groups --entity-name"
BOTH = "--entity-type users --entity-name ann --entity-type clients --entity-name app"
# In this order: each builds on those before it. What ours changes, Kafka's then changes once more in the same way.
STEPS = [
    f"kafka-configs --alter {GROUP} readers --add-config consumer.session.timeout.ms=50000",
    f"kafka-configs --describe {GROUP} readers",
    "kafka-configs --describe --entity-type groups",
    "kafka-configs --describe --group readers",
    f"kafka-configs --describe {GROUP} nobody",
    f"kafka-configs --alter {GROUP} readers --add-config nope=1",
    f"kafka-configs --alter {GROUP} readers --add-config consumer.session.timeout.ms=5",
    "kafka-configs --alter --entity-type groups --entity-default --add-config consumer.session.timeout.ms=50000",
    f"kafka-configs --alter {BOTH} --add-config producer_byte_rate=1024,consumer_byte_rate=2048",
    "kafka-configs --alter --user ann --add-config request_percentage=50.5",
    "kafka-configs --alter --client-defaults --add-config producer_byte_rate=5",
    "kafka-configs --alter --user-defaults --client app --add-config producer_byte_rate=6",
    f"kafka-configs --describe {BOTH}",
    "kafka-configs --describe --entity-type users",
    "kafka-configs --describe --entity-type clients",
    "kafka-configs --describe --user ann",
    "kafka-configs --describe --user nobody",
    "kafka-configs --alter --user ann --add-config nope=1",
    "kafka-configs --alter --user ann --add-config producer_byte_rate=0",
    "kafka-configs --alter --ip 127.0.0.1 --add-config connection_creation_rate=7",
    "kafka-configs --describe --entity-type ips",
    "kafka-configs --alter --ip-defaults --add-config connection_creation_rate=7",
    "kafka-configs --describe --topic a --user b",
    "kafka-leader-election --election-type preferred --all-topic-partitions",
    "kafka-leader-election --election-type PREFERRED --topic voters --partition 0",
    "kafka-leader-election --election-type unclean --topic voters --partition 1",
    "kafka-leader-election --election-type preferred --topic nothing --partition 0",
    "kafka-leader-election --election-type preferred --topic voters --partition 9",
    "kafka-leader-election --election-type preferred --path-to-json-file voters.json",
    "kafka-leader-election --election-type preferred --path-to-json-file broken.json",
    "kafka-leader-election --election-type other --all-topic-partitions",
    "kafka-leader-election --election-type preferred",
]


@pytest.fixture(scope="module")
def folder(broker: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run, with the files that they name."""
    create_topic(broker.bootstrap_servers, "voters", 2)
    made = tmp_path_factory.mktemp("commands")
    (made / "voters.json").write_text(json.dumps({"partitions": [{"topic": "voters", "partition": 0}]}))
    (made / "broken.json").write_text("{")
    return made


def run(program: list[str], command: str, broker: ServerProcess, folder: Path) -> tuple[int, str]:
    """Exit code and standard output."""
    done = subprocess.run(
        [*program, "--bootstrap-server", broker.bootstrap_servers, *command.split()[1:]],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        cwd=folder,
    )
    return done.returncode, done.stdout


@pytest.mark.req("M12")
@pytest.mark.parametrize("command", STEPS)
def test_our_command_says_what_kafka_s_command_says(broker: ServerProcess, folder: Path, command: str) -> None:
    name = command.split()[0]

    ours = run([sys.executable, "-m", "tidelog", name], command, broker, folder)

    assert ours == run(java_command(CLASSES[name]), command, broker, folder)
