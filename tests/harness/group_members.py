"""Members of consumer groups as processes of their own, of any client: started, asked to leave, frozen, killed.

Each prints what happens to it as Apache Kafka's VerifiableConsumer does; a thread collects it, and tests wait for what
they expect. Knows nothing of which server is behind it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.apache_kafka import java_command
from harness.waiting import wait_until

MEMBERS: Final = Path(__file__).resolve().parents[1] / "clients/members"
CLIENTS: Final = ("confluent", "kafka-python", "aiokafka", "java")
# Our own knows neither static members nor other ways to share than by ranges.
WITH_OURS: Final = (*CLIENTS, "tidelog")
LEAVE_SECONDS_MAX: Final = 30
WAIT_SECONDS_MAX: Final = 40
COMMITS_SHOWN: Final = 8
JAVA_ASSIGNORS: Final = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
JAVA_PROPERTIES: Final = {
    "metadata.max.age.ms": "1000",
    "auto.commit.interval.ms": "500",
    "fetch.max.wait.ms": "100",
    "heartbeat.interval.ms": "500",
}


class Place(NamedTuple):
    """One partition."""

    topic: str
    partition: int


class Event(NamedTuple):
    """Something that happened to a member, with the machine's time."""

    timestamp_ms: int
    name: str
    places: tuple[Place, ...]
    details: dict[str, Any]


class Member:
    """One member. It runs until `leave` or `kill`; its events stay."""

    def __init__(
        self,
        client: str,
        bootstrap_servers: str,
        topic: str,
        group: str,
        folder: Path,
        *,
        instance: str | None = None,
        session_timeout_ms: int = 6_000,
        strategy: str = "range",
        protocol: str = "classic",
        auto_commit: bool = False,
        reset: str = "earliest",
    ) -> None:
        arguments = ["--bootstrap-server", bootstrap_servers, "--topic", topic, "--group-id", group]
        arguments += ["--reset-policy", reset]
        if instance is not None:
            arguments += ["--group-instance-id", instance]
        if auto_commit:
            arguments.append("--enable-autocommit")
        command = _command(client, arguments, folder, session_timeout_ms, strategy, protocol)
        self.client = client
        self.errors_path = folder / f"{client}-{id(self)}.errors"
        self.events: list[Event] = []
        self.assignment: frozenset[Place] = frozenset()
        # Every range of offsets that came, in the order in which it came.
        self.consumed: list[tuple[Place, int, int]] = []
        # The offsets that a server has confirmed.
        self.committed: dict[Place, int] = {}
        self.assignments = 0
        self.ended_ms: int | None = None
        with self.errors_path.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def records(self) -> int:
        """How many records came, with those that came twice."""
        return sum(last - first + 1 for _, first, last in tuple(self.consumed))

    def offsets(self, place: Place) -> set[int]:
        """Which records of a partition came."""
        ranges = [(first, last) for where, first, last in tuple(self.consumed) if where == place]
        return {offset for first, last in ranges for offset in range(first, last + 1)}

    def first_offset_since(self, timestamp_ms: int, *, default: int) -> int:
        """The smallest offset that came after this time, by the member's own clock."""
        events = [event for event in self.events if event.name == "records_consumed"]
        rows = [row for event in events if event.timestamp_ms > timestamp_ms for row in event.details["partitions"]]
        return min((row["minOffset"] for row in rows), default=default)

    def commits(self) -> list[str]:
        """What it tried to commit last, and why it could not."""
        tried = [event.details for event in self.events if event.name == "offsets_committed"]
        return [f"{one['offsets']} {one.get('error', 'success')}" for one in tried[-COMMITS_SHOWN:]]

    def wait_for_assignment(self, *counts: int) -> None:
        """Wait until it has been assigned one of these numbers of partitions, or any number but none."""
        wait_until(
            lambda: self.assignments > 0 and (len(self.assignment) in counts if counts else bool(self.assignment)),
            WAIT_SECONDS_MAX,
        )

    def wait_for_records(self, count: int) -> None:
        wait_until(lambda: self.records() >= count, WAIT_SECONDS_MAX)

    def leave(self) -> None:
        """Ask it to leave its group, and wait until it has."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(LEAVE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"The {self.client} member did not leave:\n{self.errors()}") from None
        self._end()

    def kill(self) -> None:
        """kill -9: nobody tells the group."""
        self._process.kill()
        self._process.wait()
        self._end()

    def freeze(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def errors(self) -> str:
        return self.errors_path.read_text(errors="replace")[-4_000:]

    def _end(self) -> None:
        self._reader.join(LEAVE_SECONDS_MAX)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._happened(json.loads(line))

    def _happened(self, details: dict[str, Any]) -> None:
        name = details["name"]
        rows = details.get("partitions", ())
        places = tuple(Place(row["topic"], row["partition"]) for row in rows)
        event = Event(details["timestamp"], name, places, details)
        match name:
            case "partitions_assigned":
                self.assignment |= frozenset(places)
                self.assignments += 1
            case "partitions_revoked":
                self.assignment -= frozenset(places)
            case "records_consumed":
                self.consumed += [
                    (place, row["minOffset"], row["maxOffset"]) for place, row in zip(places, rows, strict=True)
                ]
            case "offsets_committed" if details["success"]:
                for row in details["offsets"]:
                    self.committed[Place(row["topic"], row["partition"])] = row["offset"]
        self.events.append(event)


class Members:
    """All members of a test; none of them outlives it."""

    def __init__(self, bootstrap_servers: str, folder: Path) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._folder = folder
        self.all: list[Member] = []

    def start(self, client: str, topic: str, group: str, **options: Any) -> Member:
        member = Member(client, self._bootstrap_servers, topic, group, self._folder, **options)
        self.all.append(member)
        return member

    def start_many(self, count: int, client: str, topic: str, group: str, **options: Any) -> list[Member]:
        return [self.start(client, topic, group, **options) for _ in range(count)]

    def end(self) -> None:
        for member in self.all:
            if member.is_alive():
                member.kill()

    def errors(self) -> str:
        return "\n".join(f"{member.client} ({member.pid}): {member.errors()}" for member in self.all if member.errors())


def wait_for_shares(members: Iterable[Member], partitions: Iterable[Place]) -> None:
    """Wait until these members own these partitions, each partition once, and no member two more than another."""
    wanted = sorted(partitions)
    watched = list(members)

    def shared() -> bool:
        shares = [member.assignment for member in watched]
        sizes = [len(share) for share in shares]
        return sorted(place for share in shares for place in share) == wanted and max(sizes) - min(sizes) <= 1

    try:
        wait_until(shared, WAIT_SECONDS_MAX)
    except AssertionError:
        shares = "\n".join(f"{member.client} ({member.pid}) {sorted(member.assignment)}" for member in watched)
        raise AssertionError(f"{len(wanted)} partitions were not shared in time:\n{shares}") from None


def wait_for_commits(members: Iterable[Member], find: Callable[[], dict[int, int]], wanted: dict[int, int]) -> None:
    """Wait until these offsets, by partition, are found to be committed; says what members tried when they are not."""
    watched = list(members)
    try:
        wait_until(lambda: find() == wanted, WAIT_SECONDS_MAX)
    except AssertionError:
        done = "\n".join(f"{member.client} ({member.pid}) {member.commits()}" for member in watched)
        raise AssertionError(f"{find()} is committed, not {wanted}:\n{done}") from None


def places_of(topic: str, partitions: int) -> list[Place]:
    return [Place(topic, partition) for partition in range(partitions)]


def running(bootstrap_servers: str, folder: Path) -> Iterator[Members]:
    """For fixtures: members that are gone when the test is."""
    members = Members(bootstrap_servers, folder)
    try:
        yield members
    finally:
        members.end()


def _command(
    client: str, arguments: list[str], folder: Path, session_timeout_ms: int, strategy: str, protocol: str
) -> list[str]:
    if client != "java":
        script = MEMBERS / f"{client.replace('-', '_')}_member.py"
        arguments += ["--session-timeout", str(session_timeout_ms), "--group-protocol", protocol]
        return [sys.executable, str(script), *arguments, "--assignment-strategy", strategy]
    properties = dict(JAVA_PROPERTIES)
    if protocol == "classic":
        assignor = f"org.apache.kafka.clients.consumer.{JAVA_ASSIGNORS[strategy]}"
        arguments += ["--session-timeout", str(session_timeout_ms), "--assignment-strategy", assignor]
    else:
        del properties["heartbeat.interval.ms"]
        arguments += ["--group-protocol", protocol, "--group-remote-assignor", strategy]
    path = folder / f"java-{protocol}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    arguments += ["--command-config", str(path)]
    return java_command("org.apache.kafka.tools.VerifiableConsumer", *arguments)
