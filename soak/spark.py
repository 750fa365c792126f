"""Exactly once under fire: a pipeline on a real Spark cluster, everyone in it killed again and again; and a judgement.

`python -m soak spark` runs it at full size, a test at a small one. The pipeline is `tidelog pipeline run` in a process
of its own; broker, master and workers are processes, too. A victim is chosen when batches go through again after the
last one, so that each meets work in progress.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

from harness.server import ServerProcess
from soak.spark_faults import SparkFaults, Victim
from soak.spark_verdict import Verdict, judge_lake, judge_topic
from tidelog.client.admin import Admin, accepted
from tidelog.client.blocking.producer import Producer
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.client.transactions import Transactions
from tidelog.model.ids import TopicName
from tidelog.spark.standalone import StandaloneCluster

PARTITIONS: Final = 4
ROWS_AT_ONCE: Final = 50_000
EXECUTOR_CLASS: Final = "CoarseGrainedExecutorBackend"
# What the broker needs to take part.
BROKER_SETTINGS: Final = {"transaction.two.phase.commit.enable": "true"}
WORKER_MEMORY: Final = "700m"
# So long may it take until a batch goes through: a driver starts, executors start, on a busy machine.
PROGRESS_SECONDS_MAX: Final = 600.0
# After a batch was seen, the next victim falls within this time: early, late, or between two batches.
AIM_SECONDS_MAX: Final = 2.0
# A driver that gives up by itself is started again, so often.
GIVE_UPS_MAX: Final = 3
POLL_SECONDS: Final = 0.1

Say = Callable[[str], None]


class Route(Enum):
    """Where the records go."""

    TOPIC = "topic"
    PARQUET = "parquet"


PIPELINE: Final = """
name = "{name}"

[sources.input]
topic = "{name}-input"
options = {{ maxOffsetsPerTrigger = "{rows_per_batch}" }}

[transform]
sql = "{sql}"

[sink]
{sink}

[spark]
"spark.executor.memory" = "512m"
"spark.executor.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"spark.task.maxFailures" = "8"
"""


@dataclass(frozen=True, slots=True)
class SparkPlan:
    """What a run is to show."""

    route: Route
    records: int = 1_000_000
    faults: SparkFaults = field(default_factory=SparkFaults)
    seed: int = 1
    # Of the pipeline and its topics, where there are several to one broker.
    name: str = "soak"


@dataclass(frozen=True, slots=True)
class SparkOutcome:
    """What came out."""

    records: int
    verdict: Verdict
    # Transactions that nobody ended.
    hanging: int
    kills: dict[Victim, int]
    give_ups: int
    seconds: float

    @property
    def is_exactly_once(self) -> bool:
        return not (self.verdict.missing or self.verdict.repeated or self.hanging)

    def __str__(self) -> str:
        killed = ", ".join(f"{victim.name.lower()} ×{count}" for victim, count in self.kills.items() if count)
        files = f"; {self.verdict.files:,} files in the table, {self.verdict.files_left:,} of killed tasks beside it"
        return (
            f"{self.records:,} records in {self.seconds:,.0f} s; killed: {killed or 'nobody'}; driver gave up "
            f"{self.give_ups} times; missing {self.verdict.missing:,}, repeated {self.verdict.repeated:,}, "
            f"transactions left open {self.hanging:,}{files if self.verdict.files else ''}"
        )


class SparkSoak:
    """One pipeline on its way from an input topic to its sink, and those who can be killed meanwhile."""

    def __init__(
        self,
        broker: ServerProcess,
        cluster: StandaloneCluster,
        folder: Path,
        plan: SparkPlan,
        say: Say,
        master: str | None = None,
    ) -> None:
        """`master` is where drivers go unless to the cluster itself: a server of Spark Connect in front of it."""
        self._broker = broker
        self._cluster = cluster
        self._master = master or cluster.url
        self._folder = folder
        self._plan = plan
        self._say = say
        self._name = f"{plan.name}-{plan.route.value}"
        self._chance = random.Random(plan.seed)
        self._driver: subprocess.Popen[bytes] | None = None
        self._give_ups = 0
        self._began = time.monotonic()
        self._memory = folder / f"{self._name}.killed"
        self.lake = folder / "lake"

    @property
    def log(self) -> Path:
        return self._folder / f"{self._name}.log"

    def run(self) -> SparkOutcome:
        """The whole run."""
        self._folder.mkdir(parents=True, exist_ok=True)
        struck = self._struck_before()
        if struck is None:
            self._prepare()
            struck = []
        try:
            self._start_driver()
            done = self._batches_done()
            for victim in list(self._plan.faults.in_order(self._plan.seed))[len(struck) :]:
                done = self._wait_for_batch_after(done)
                time.sleep(self._chance.uniform(0, AIM_SECONDS_MAX))
                self._say(f"{time.monotonic() - self._began:6.1f} s  batch {done}: kill -9 of {victim.value}")
                self._strike(victim)
                struck.append(victim)
                self._remember(struck)
                done = self._batches_done()
            self._wait_for_end()
        finally:
            self._kill_driver()
        verdict = self._judge()
        with Cluster(self._broker.bootstrap_servers) as cluster:
            hanging = len(Transactions(cluster).list_transactions(states=["Ongoing"]))
        seconds = time.monotonic() - self._began
        kills = {victim: struck.count(victim) for victim in Victim}
        return SparkOutcome(self._plan.records, verdict, hanging, kills, self._give_ups, seconds)

    def _struck_before(self) -> list[Victim] | None:
        """Who was killed before this run was itself cut off and started again in its folder; None if it begins."""
        if not self._memory.exists():
            return None
        return [Victim[name] for name in self._memory.read_text().split()]

    def _remember(self, struck: list[Victim]) -> None:
        self._memory.write_text(" ".join(victim.name for victim in struck))

    def _prepare(self) -> None:
        """The topics, the records, and the file of the pipeline."""
        servers = self._broker.bootstrap_servers
        with Cluster(servers) as cluster:
            new = [NewTopic(TopicName(f"{self._name}-{end}"), PARTITIONS) for end in ("input", "output")]
            for answer in Admin(cluster).create_topics(new).values():
                accepted(answer)
        with Producer(bootstrap_servers=servers) as producer:
            for first in range(0, self._plan.records, ROWS_AT_ONCE):
                numbers = pa.array(range(first, min(first + ROWS_AT_ONCE, self._plan.records)), pa.int64())
                text = numbers.cast(pa.string())
                producer.send_table(f"{self._name}-input", pa.table({"key": text, "value": text})).result()
        sql, sink = (
            "SELECT key, value FROM input",
            f'topic = "{self._name}-output"\noptions = {{ exactlyOnce = "true" }}',
        )
        if self._plan.route is Route.PARQUET:
            sql = "SELECT cast(cast(value AS string) AS bigint) AS number, date(timestamp) AS day FROM input"
            sink = f'parquet = "{self.lake}"\npartition_by = ["day"]'
        # Enough batches that each fault finds one, and some are left for the end.
        rows_per_batch = max(1, self._plan.records // (4 * len(self._plan.faults) + 4))
        text_ = PIPELINE.format(name=self._name, rows_per_batch=rows_per_batch, sql=sql, sink=sink)
        (self._folder / f"{self._name}.toml").write_text(text_)
        self._remember([])

    def _start_driver(self) -> None:
        command = [
            sys.executable,
            "-m",
            "tidelog",
            "pipeline",
            "run",
            str(self._folder / f"{self._name}.toml"),
            "--once",
        ]
        command += ["-b", self._broker.bootstrap_servers, "--master", self._master]
        with self.log.open("ab") as log:
            self._driver = subprocess.Popen(
                [*command, "--folder", str(self._folder / "state")], stdout=log, stderr=log, start_new_session=True
            )

    def _kill_driver(self) -> None:
        """The whole of it at once: Python, Java, and Spark's Python processes beside it."""
        assert self._driver is not None
        for pid in processes_of(self._driver.pid):
            kill(pid)
        self._driver.wait()

    def _strike(self, victim: Victim) -> None:
        match victim:
            case Victim.EXECUTOR:
                # Its Python processes live on for a moment, and so does the task that one of them runs.
                kill(self._an_executor())
            case Victim.WORKER:
                worker = self._chance.choice(self._cluster.workers)
                for pid in processes_of(worker.pid):
                    kill(pid)
                worker.kill()
                self._cluster.workers.remove(worker)
                self._cluster.add_worker()
            case Victim.DRIVER:
                self._kill_driver()
                self._start_driver()
            case Victim.BROKER:
                self._broker.kill()
                self._broker.start()

    def _an_executor(self) -> int:
        end = time.monotonic() + PROGRESS_SECONDS_MAX
        while time.monotonic() < end:
            found = [pid for worker in self._cluster.workers for pid in processes_of(worker.pid, EXECUTOR_CLASS)]
            if found:
                return self._chance.choice(found)
            time.sleep(POLL_SECONDS)
        raise TimeoutError(f"There is no executor.\n{self._log_tail()}")

    def _batches_done(self) -> int:
        """The newest batch of which Spark's own checkpoint says that it is done."""
        commits = self._folder / "state" / self._name / "checkpoint" / "commits"
        return max((int(path.name) for path in commits.glob("*") if path.name.isdigit()), default=-1)

    def _wait_for_batch_after(self, done: int) -> int:
        end = time.monotonic() + PROGRESS_SECONDS_MAX
        while (now := self._batches_done()) <= done:
            self._start_again_if_it_gave_up()
            if time.monotonic() > end:
                raise TimeoutError(f"No batch after {done} in {PROGRESS_SECONDS_MAX:.0f} s.\n{self._log_tail()}")
            time.sleep(POLL_SECONDS)
        return now

    def _start_again_if_it_gave_up(self) -> None:
        assert self._driver is not None
        if self._driver.poll() is None:
            return
        if self._driver.returncode == 0:
            raise RuntimeError(f"The pipeline was through before everyone was killed.\n{self._log_tail()}")
        self._give_ups += 1
        self._say(f"{time.monotonic() - self._began:6.1f} s  the driver gave up and is started again")
        if self._give_ups > GIVE_UPS_MAX:
            raise RuntimeError(f"The driver gave up {self._give_ups} times.\n{self._log_tail()}")
        self._start_driver()

    def _wait_for_end(self) -> None:
        """Until the pipeline is through with what there is."""
        assert self._driver is not None
        done, end = self._batches_done(), time.monotonic() + PROGRESS_SECONDS_MAX
        while self._driver.poll() != 0:
            self._start_again_if_it_gave_up()
            if self._batches_done() > done:
                done, end = self._batches_done(), time.monotonic() + PROGRESS_SECONDS_MAX
            if time.monotonic() > end:
                raise TimeoutError(f"No batch after {done} in {PROGRESS_SECONDS_MAX:.0f} s.\n{self._log_tail()}")
            time.sleep(POLL_SECONDS)

    def _judge(self) -> Verdict:
        if self._plan.route is Route.PARQUET:
            return judge_lake(self.lake, self._plan.records)
        servers = self._broker.bootstrap_servers
        return judge_topic(servers, f"{self._name}-output", PARTITIONS, self._plan.records)

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])


def processes_of(session: int, with_argument: str = "") -> list[int]:
    """Everything that was started in a session, or only what has this in its command line."""
    listed = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--sid", str(session)], capture_output=True, text=True)
    rows = [line.split(maxsplit=1) for line in listed.stdout.splitlines()]
    return [int(pid) for pid, command in rows if with_argument in command]


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
