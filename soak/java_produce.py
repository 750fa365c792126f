"""Java's producer as a writer of history: Kafka's VerifiableProducer, whose lines are turned into events."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from harness.apache_kafka import java_command
from soak.generators import history_path
from soak.history import Acked, Event, Failed, HistoryWriter, Sent, name_in

STOP_SECONDS_MAX: Final = 90.0
# Records that the producer may hold when it is stopped: its buffer, in records of this size.
UNTOLD_MAX: Final = 100_000
# What the tool says of the record that it was about to send when it was asked to stop.
NEVER_SENT: Final = "Producer closed while send in progress"
# The tool gives up at the first error unless told otherwise.
SETTINGS: Final = {
    "enable.idempotence": "true",
    "retries": "2147483647",
    "delivery.timeout.ms": "120000",
    "request.timeout.ms": "10000",
    "linger.ms": "5",
}


class _Line(msgspec.Struct):
    name: str
    topic: str = ""
    partition: int = -1
    offset: int = -1
    value: str | None = None
    exception: str = ""
    message: str | None = None


class JavaProducer:
    """One producer. Its records are named after its number."""

    def __init__(self, bootstrap_servers: str, topic: str, number: int, per_second: int, folder: Path) -> None:
        self.path = folder / f"java-{number}.out"
        settings = folder / f"java-{number}.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
        arguments = ["--bootstrap-server", bootstrap_servers, "--topic", topic, "--acks", "-1"]
        arguments += ["--throughput", str(per_second), "--value-prefix", str(number)]
        arguments += ["--command-config", str(settings)]
        command = java_command("org.apache.kafka.tools.VerifiableProducer", *arguments, log_level="off")
        with self.path.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def finish(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError("Java's producer did not come to an end") from None

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def write_history(self, folder: Path) -> None:
        """What it did, as the other generators write it."""
        with history_path(folder, self.path.stem).open("wb") as file:
            history = HistoryWriter(file)
            for event in self._events():
                history.write(event)

    def _events(self) -> Iterator[Event]:
        """What it did. It tells of a record when it is acknowledged, so that some more may have been on their way."""
        highest: dict[str, int] = {}
        for line in _lines(self.path):
            if line.value is None:
                continue
            name = name_in(line.value.encode())
            highest[name.producer] = max(name.number, highest.get(name.producer, -1))
            if line.name == "producer_send_success":
                yield Acked(line.topic, line.partition, line.offset, *name)
            elif line.name == "producer_send_error" and line.message != NEVER_SENT:
                yield Failed(name.producer, name.number, line.exception)
        for producer, number in highest.items():
            yield Sent(producer, number, UNTOLD_MAX)


def _lines(path: Path) -> Iterator[_Line]:
    for line in path.read_bytes().splitlines():
        try:
            yield msgspec.json.decode(line, type=_Line)
        except msgspec.MsgspecError:
            continue
