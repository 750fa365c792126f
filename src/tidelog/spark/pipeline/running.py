"""Runs one pipeline in this process: starts Spark and the query, tells of each batch, starts it again when it fails.

`tidelog pipeline run` calls it. A query that fails resumes from its checkpoint; one that fails again and again without
a batch in between has something wrong that waiting does not mend.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidelog.spark.java import NoJava
from tidelog.spark.pipeline.definition import PipelineDefinition
from tidelog.spark.pipeline.frames import start_query
from tidelog.spark.pipeline.promise import less_than_exactly_once
from tidelog.spark.pipeline.registry import PipelineState, Registry
from tidelog.spark.pipeline.told import batches_after, ended_by, essence, is_mistake, lag_of
from tidelog.spark.processes import SparkDidNotStart
from tidelog.spark.session import awaits_executors, is_connect, spark_session
from tidelog.spark.words import words_into

FAILURES_MAX: Final = 5
RESTART_PAUSE_S: Final = 2.0
POLL_S: Final = 1
# A cluster that has cores and memory free starts an executor sooner than this.
EXECUTORS_AWAITED_S: Final = 15.0
NOBODY_WORKS: Final = (
    "no worker has cores and memory left for an executor: another application holds them, or too much is asked "
    "(spark.cores.max, spark.executor.memory in [spark])"
)

Tell = Callable[[PipelineState], None]


class PipelineRun:
    """A pipeline while it runs."""

    def __init__(
        self, definition: PipelineDefinition, state: PipelineState, registry: Registry, tell: Tell, master: str
    ) -> None:
        self._definition = definition
        self._state = state
        self._registry = registry
        self._tell = tell
        self._master = master
        self._stopping = False

    def stop(self) -> None:
        """Let the batch that runs come to its end, and no other begin. Safe in a signal handler."""
        self._stopping = True

    def run(self, seconds: float | None = None) -> PipelineState:
        """Run to the end: stopped, out of time, through with what there was, or failed for good."""
        end = None if seconds is None else time.monotonic() + seconds
        self._say(status="starting")
        # A server of Spark Connect has its jars already, or not: a session cannot bring any.
        own = self._definition.settings if is_connect(self._master) else self._definition.session_settings()
        settings = {"spark.log.level": "ERROR", **own}
        spark = self._start_spark(settings)
        try:
            # A server of Spark Connect may have another way to the cluster than this process.
            note = None if is_connect(self._master) else less_than_exactly_once(self._definition)
            self._say(status="running", note=note)
            self._supervise(spark, end)
        finally:
            spark.stop()
        return self._state

    def _start_spark(self, settings: Mapping[str, str]) -> SparkSession:
        """SparkDidNotStart with a sentence: no such master, jars that cannot be had, a cluster that does not answer."""
        log = self._registry.spark_log_of(self._definition.name)
        before = log.stat().st_size if log.exists() else 0
        try:
            with words_into(log):
                return spark_session(self._definition.name, master=self._master, settings=settings)
        except (PySparkException, Py4JError, RuntimeError) as error:
            if isinstance(error, NoJava):
                raise
            reason = ended_by(log.read_bytes()[before:].decode(errors="replace")) or essence(str(error))
            message = f"Spark did not start with master {self._master}: {reason}"
            self._say(status="failed", failure=message)
            raise SparkDidNotStart(f"{message} (all of it is in {log})") from None

    def _checkpoint(self) -> Path:
        given = self._definition.checkpoint
        return Path(given).absolute() if given else self._registry.checkpoint_of(self._definition.name)

    def _supervise(self, spark: SparkSession, end: float | None) -> None:
        failures = 0
        while True:
            batch_before = self._state.batch_id
            try:
                self._follow(spark, start_query(spark, self._definition, self._checkpoint()), end)
                self._say(status="stopped" if self._stopping or _is_over(end) else "finished", failure=None)
                return
            # Of Java's own errors only those that Spark knows are PySpark's: jars for another Spark are none of them.
            except (PySparkException, Py4JError) as error:
                failures = 1 if self._state.batch_id > batch_before else failures + 1
                sentence = essence(str(error))
                if failures >= FAILURES_MAX or is_mistake(error):
                    self._say(status="failed", failure=sentence)
                    return
                self._say(status="restarting", failure=sentence)
                time.sleep(RESTART_PAUSE_S)
                self._say(status="running")

    def _follow(self, spark: SparkSession, query: StreamingQuery, end: float | None) -> None:
        told, began = -1, time.monotonic()
        while not query.awaitTermination(POLL_S):
            told = self._progress(query, told)
            if told < 0 and time.monotonic() - began > EXECUTORS_AWAITED_S:
                self._tell_whether_anybody_works(spark)
            if self._stopping or _is_over(end):
                _let_finish(query)
                query.stop()
                break
        self._progress(query, told)

    def _tell_whether_anybody_works(self, spark: SparkSession) -> None:
        """A cluster whose cores are taken lets a query wait without a word."""
        waits = awaits_executors(spark, self._master)
        if waits and self._state.status == "running":
            self._say(status="waiting", failure=NOBODY_WORKS)
        elif not waits and self._state.status == "waiting":
            self._say(status="running", failure=None)

    def _progress(self, query: StreamingQuery, told: int) -> int:
        for progress in batches_after(told, query.recentProgress):
            told = progress.batchId
            self._say(
                batch_id=told,
                rows=self._state.rows + progress.numInputRows,
                rows_per_second=float(progress.processedRowsPerSecond or 0.0),
                lag=lag_of(progress.sources),
                batch_ms=int(progress.durationMs.get("triggerExecution", 0)),
            )
        return told

    def _say(self, **changes: Any) -> None:
        self._state = replace(self._state, updated_at=time.time(), **changes)
        self._registry.write(self._state)
        self._tell(self._state)


def _let_finish(query: StreamingQuery) -> None:
    """Spark interrupts a batch that runs, and rolls it back; a moment of patience saves that work."""
    deadline = time.monotonic() + 5.0
    while query.status["isTriggerActive"] and query.status["isDataAvailable"] and time.monotonic() < deadline:
        time.sleep(0.05)


def _is_over(end: float | None) -> bool:
    return end is not None and time.monotonic() >= end
