"""Clients and faults let loose on a cluster, then the judgement. Called by `python -m soak run` and by a test.

Writers and readers run from before the first fault until after the last. When all is healed and at rest the whole log
is read once more, the replicas are compared byte for byte, and the checker gets the history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from soak.checker import Verdict, check
from soak.generators import Generator, history_path
from soak.generators.librdkafka_consume import Work as Consume
from soak.generators.librdkafka_produce import Work as Produce
from soak.history import read_history
from soak.java_produce import JavaProducer
from soak.weather import Fault, Kind
from tidelog.testing.cluster import Cluster
from tidelog.testing.network import CLIENTS

TOPIC: Final = "history"
PARTITIONS: Final = 6
PRODUCERS: Final = 2
CONSUMERS: Final = 2
CREATE_SECONDS_MAX: Final = 30.0
# Between two faults the cluster gets this long to become whole again; it goes on in any case.
CALM_SECONDS_MAX: Final = 30.0
CALM_SECONDS_MIN: Final = 0.5
DELAY_SECONDS: Final = 0.3
SEGMENT_BYTES: Final = 8 * 1024 * 1024
JAVA_NUMBER: Final = 7
# A cluster that is whole and written to gives every reader something new within this time, on a busy machine, too.
READ_ON_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.05
LAST_LINES: Final = 5


@dataclass(slots=True)
class Outcome:
    """What a run showed."""

    verdict: Verdict
    # Partitions whose replicas do not hold the same bytes.
    different: list[str]
    faults: list[tuple[float, Fault, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plan:
    """No fault begins after `seconds`, unless there were fewer than `faults_min`."""

    faults: Iterable[Fault]
    seconds: float
    _: KW_ONLY
    faults_min: int = 0
    per_second: int = 500
    java: bool = True


def run(cluster: Cluster, plan: Plan, folder: Path, say: Callable[[str], None] = lambda sentence: None) -> Outcome:
    """Let it loose on a cluster that is running and whole, and whose clients' links can be cut."""
    folder.mkdir(parents=True, exist_ok=True)
    create_topic(cluster, TOPIC, PARTITIONS)
    outcome = Outcome(Verdict(), [])
    with ExitStack() as running:
        writers: list[Generator | JavaProducer] = []
        readers: list[Generator] = []
        for number in range(1, PRODUCERS + 1):
            work = Produce(
                cluster.bootstrap_servers, TOPIC, PARTITIONS, f"rdkafka-{number}", plan.per_second, str(folder)
            )
            writers.append(Generator("librdkafka_produce", work))
            running.callback(writers[-1].kill)
        java = None
        if plan.java:
            java = JavaProducer(cluster.bootstrap_servers, TOPIC, JAVA_NUMBER, plan.per_second, folder)
            writers.append(java)
            running.callback(java.kill)
        for number in range(1, CONSUMERS + 1):
            live = Consume(cluster.bootstrap_servers, TOPIC, PARTITIONS, f"live-{number}", str(folder))
            readers.append(Generator("librdkafka_consume", live))
            running.callback(readers[-1].kill)
        began = time.monotonic()
        for fault in plan.faults:
            if time.monotonic() - began >= plan.seconds and len(outcome.faults) >= plan.faults_min:
                break
            victim = carry_out(cluster, fault)
            passed = time.monotonic() - began
            outcome.faults.append((passed, fault, victim))
            say(f"{passed:6.1f} s  {fault.kind.value} ({fault.seconds:.1f} s, broker {victim})")
            calm_down(cluster)
            # Now, and not at the end: so it is known which fault it was.
            wait_until_read_on(readers, folder, cluster)
        cluster.wait_until_in_sync()
        for writer in writers:
            writer.finish()
        cluster.wait_until_in_sync()
        last = Consume(cluster.bootstrap_servers, TOPIC, PARTITIONS, "last", str(folder), whole=True)
        Generator("librdkafka_consume", last).wait()
        for reader in readers:
            reader.finish()
    if java is not None:
        java.write_history(folder)
    outcome.verdict = check(read_history(sorted(folder.glob("*.history"))))
    outcome.different = differing_replicas(cluster)
    return outcome


def create_topic(cluster: Cluster, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    # Segments that end within minutes: they are rolled, synced and, after a crash, not read all over again.
    new = NewTopic(name, partitions, 3, config={"min.insync.replicas": "2", "segment.bytes": str(SEGMENT_BYTES)})
    admin.create_topics([new])[name].result(CREATE_SECONDS_MAX)
    cluster.wait_until_in_sync()


def carry_out(cluster: Cluster, fault: Fault) -> int:
    """Let a fault happen, wait, undo it; whom it befell."""
    leader = cluster.leader(TOPIC)
    other = next(node for node in cluster.nodes if node != leader)
    match fault.kind:
        case Kind.KILL_LEADER | Kind.KILL_FOLLOWER | Kind.KILL_CONTROLLER:
            victim = {Kind.KILL_LEADER: leader, Kind.KILL_FOLLOWER: other}.get(fault.kind) or cluster.controller
            cluster.kill(victim)
            time.sleep(fault.seconds)
            cluster.restart(victim)
            return victim
        case Kind.KILL_ALL:
            for node in cluster.nodes:
                cluster.kill(node)
            cluster.start_again()
            return 0
        case Kind.TWO_AT_ONCE:
            cluster.pause(other)
            cluster.kill(leader)
            time.sleep(fault.seconds)
            cluster.resume(other)
            cluster.restart(leader)
            return leader
        case Kind.LOST_ANSWERS:
            # Clients do not hear that their records are stored, and send them again over new connections.
            cluster.cut(leader, CLIENTS)
            time.sleep(fault.seconds)
            cluster.reset(CLIENTS, leader)
            cluster.heal()
            return leader
        case Kind.PAUSE_LEADER | Kind.PAUSE_CONTROLLER:
            victim = leader if fault.kind is Kind.PAUSE_LEADER else cluster.controller
            cluster.pause(victim)
            time.sleep(fault.seconds)
            cluster.resume(victim)
            return victim
        case Kind.RESTART_LEADER:
            cluster.restart(leader)
            return leader
        case Kind.ROLLING_RESTART:
            for node in cluster.nodes:
                cluster.wait_until_in_sync(CALM_SECONDS_MAX)
                cluster.restart(node)
            return 0
    victim = cut(cluster, fault.kind, leader, other)
    time.sleep(fault.seconds)
    cluster.heal()
    return victim


def cut(cluster: Cluster, kind: Kind, leader: int, other: int) -> int:
    """Faults of the network."""
    controller = cluster.controller if kind in (Kind.DEAF_CONTROLLER, Kind.MUTE_CONTROLLER) else 0
    match kind:
        case Kind.CUT_FROM_LEADER:
            cluster.cut(leader, other)
        case Kind.CUT_TO_LEADER:
            cluster.cut(other, leader)
        case Kind.ISOLATE_LEADER:
            cluster.isolate(leader)
        case Kind.DELAY:
            cluster.delay(leader, other, DELAY_SECONDS)
            cluster.delay(other, leader, DELAY_SECONDS)
        case Kind.RESET:
            cluster.reset(leader, other)
        case Kind.DEAF_CONTROLLER | Kind.MUTE_CONTROLLER:
            for node in cluster.nodes:
                if node != controller:
                    ends = (node, controller) if kind is Kind.DEAF_CONTROLLER else (controller, node)
                    cluster.cut(*ends)
        case _:
            raise AssertionError(kind)
    return controller or leader


def calm_down(cluster: Cluster) -> None:
    """Wait until the cluster is whole again, but not for ever: the next fault may as well meet it as it is."""
    time.sleep(CALM_SECONDS_MIN)
    try:
        cluster.wait_until_in_sync(CALM_SECONDS_MAX)
    except TimeoutError:
        return


def wait_until_read_on(readers: Sequence[Generator], folder: Path, cluster: Cluster) -> None:
    """Until every live reader has read more than it had. RuntimeError when one has ended, or reads no more; with what
    the brokers said last, who may refuse records for a good reason, such as a disk that is nearly full."""
    for number, reader in enumerate(readers, 1):
        path = history_path(folder, f"live-{number}")
        before = path.stat().st_size
        end = time.monotonic() + READ_ON_SECONDS_MAX
        while path.stat().st_size == before:
            reader.check()
            if time.monotonic() > end:
                said = "\n".join(f"broker {node}:\n{cluster.log(node, LAST_LINES)}" for node in cluster.nodes)
                raise RuntimeError(f"live-{number} has read nothing for {READ_ON_SECONDS_MAX:.0f} s\n{said}")
            time.sleep(POLL_SECONDS)


def differing_replicas(cluster: Cluster) -> list[str]:
    """Partitions of the topic whose replicas do not hold the same bytes on disk."""
    different = []
    for index in range(PARTITIONS):
        folders = [cluster.data / f"broker-{node}" / f"{TOPIC}-{index}" for node in cluster.nodes]
        if len({b"".join(_log_bytes(folder)) for folder in folders}) > 1:
            different.append(f"{TOPIC}-{index}")
    return different


def _log_bytes(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.glob("*.log")):
        yield path.read_bytes()
