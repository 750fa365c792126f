"""A Spark cluster from what pip installs: a master and workers, each a process of its own (Spark's standalone mode).

`tidelog pipeline cluster` starts one; so do the tests. Executors run with the Python of whoever starts the driver, so
on each machine that Python has to find `tidelog` and its dependencies.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tidelog.spark.processes import LOOPBACK, SparkProcess, spark_command, spark_environment

MASTER_CLASS: Final = "org.apache.spark.deploy.master.Master"
WORKER_CLASS: Final = "org.apache.spark.deploy.worker.Worker"
MASTER_READY: Final = r"Starting Spark master at (spark://\S+)"
WORKER_READY: Final = r"Successfully registered with master"
# An executor that is killed is started again, however often; Spark would give the application up after ten.
MASTER_OPTIONS: Final = "-Dspark.deploy.maxExecutorRetries=-1"


class StandaloneCluster:
    """A master and its workers on this machine, until it is stopped."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        host: str = LOOPBACK,
        port: int = 0,
    ) -> None:
        self._folder = folder.absolute()
        self._cores = cores
        self._memory = memory
        self._host = host
        self._started = 0
        self._environment = spark_environment(host, SPARK_MASTER_OPTS=MASTER_OPTIONS)
        self._master = self._start("master", MASTER_CLASS, "--port", str(port))
        self.workers: list[SparkProcess] = []
        self.url = ""
        try:
            self.url = self._master.wait_for(MASTER_READY)[1]
            for worker in [self._start_worker() for _ in range(workers)]:
                worker.wait_for(WORKER_READY)
        except BaseException:
            self.stop()
            raise

    def add_worker(self) -> SparkProcess:
        """Start one more worker; it is ready for executors when this returns."""
        worker = self._start_worker()
        worker.wait_for(WORKER_READY)
        return worker

    def _start_worker(self) -> SparkProcess:
        self._started += 1
        name = f"worker-{self._started}"
        resources = ("--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(self._folder / name))
        worker = self._start(name, WORKER_CLASS, *resources, self.url)
        self.workers.append(worker)
        return worker

    def stop(self) -> None:
        for process in [*self.workers, self._master]:
            process.stop()
        self.workers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, name: str, class_: str, *options: str) -> SparkProcess:
        command = [spark_command("spark-class"), class_, "--host", self._host, "--webui-port", "0", *options]
        return SparkProcess(name, command, self._folder, self._environment)
