"""A Spark session that can run our source: the right Java and Python, small by default, source registered.

For pipelines, the command line, tests and benchmark; a program with a session of its own calls `register` alone.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from tidelog.spark.home import can_be_linked, linked_home
from tidelog.spark.java import java_home
from tidelog.spark.processes import LOOPBACK
from tidelog.spark.source import TidelogSource

FILTERS_SETTING: Final = "spark.sql.python.filterPushdown.enabled"
# The address of a server of Spark Connect begins so.
CONNECT: Final = "sc://"
ON_THIS_MACHINE: Final = ("local", f"spark://{LOOPBACK}:", "spark://localhost:")

DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "768m",
    # Batches go to Python as Arrow: larger ones cost less each.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # Not of large rows: Python waits while Java gathers a batch, and beyond its caches that costs half as much again.
    "spark.sql.execution.arrow.maxBytesPerBatch": "4194304",
    # On a busy machine a Python process may take longer to start than Spark's 15 seconds.
    "spark.python.authenticate.socketTimeout": "120s",
    FILTERS_SETTING: "true",
    # Spark 4.1 cannot ask our streams where to end: else `available-now` would end after a batch that is done again.
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",
}
# Executors elsewhere have to reach the driver: only where all is on one machine it hides behind the loopback.
LOCAL_DEFAULTS: Final = {
    # Spark begins each task with several short writes. Over TCP the second may wait for the first to be acknowledged,
    # which Linux puts off for up to 40 ms; by a Unix socket small micro-batches took a fifth less.
    "spark.python.unix.domain.socket.enabled": "true" if hasattr(socket, "AF_UNIX") else "false",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    # Spark asks Arrow for each value of each row: without checks of each of them a row costs Java a seventh less.
    "spark.driver.defaultJavaOptions": (
        "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
    ),
}


def register(spark: SparkSession) -> None:
    """Let a session read and write `format("tidelog")`, with filters pushed down to the log's indexes."""
    spark.conf.set(FILTERS_SETTING, "true")
    spark.dataSource.register(TidelogSource)


def spark_session(
    name: str = "tidelog", *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or take the session that runs already, and register the source.

    `master` is `local[2]`, a cluster such as `spark://host:7077`, or a server of Spark Connect such as `sc://host`.
    """
    spark = _connected(master, settings or {}) if is_connect(master) else _started(name, master, settings or {})
    register(spark)
    return spark


def is_connect(master: str) -> bool:
    """Whether the driver is not in this process but in a server that Spark Connect speaks to."""
    return master.startswith(CONNECT)


def awaits_executors(spark: SparkSession, master: str) -> bool:
    """Whether a cluster gave this session nobody yet who works for it. Through Spark Connect that cannot be known."""
    if master.startswith("local") or is_connect(master):
        return False
    context: Any = spark.sparkContext._jsc.sc()
    # The driver is counted among them.
    return bool(context.getExecutorMemoryStatus().size() <= 1)


def _started(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    home = java_home()
    if home is None:
        os.environ.pop("JAVA_HOME", None)
    else:
        os.environ["JAVA_HOME"] = home
    # Spark's workers are processes of their own: without this they run whatever Python the path has first.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    defaults: dict[str, str] = dict(DEFAULTS)
    if master.startswith(ON_THIS_MACHINE):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        defaults |= LOCAL_DEFAULTS
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**defaults, **settings}.items():
        builder = builder.config(key, value)
    if SparkSession.getActiveSession() is not None or not can_be_linked(master, os.environ):
        return builder.getOrCreate()
    os.environ["SPARK_HOME"] = linked_home()
    try:
        return builder.getOrCreate()
    finally:
        # Java has it; whatever else this process starts may have a Spark of its own.
        del os.environ["SPARK_HOME"]


def _connected(address: str, settings: Mapping[str, str]) -> SparkSession:
    """The server has its Java, Python and memory already; a session chooses only how its queries run."""
    spark: SparkSession = SparkSession.builder.remote(address).getOrCreate()
    for key, value in {**DEFAULTS, **settings}.items():
        if key.startswith("spark.sql."):
            spark.conf.set(key, value)
    return spark
