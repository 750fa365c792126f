from __future__ import annotations

import os
import socket
import stat

from pyspark.sql import SparkSession


def test_pythons_that_spark_starts_load_pyspark_as_it_is_installed(spark: SparkSession) -> None:
    loaded = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert ".zip" not in loaded[0]
    assert "SPARK_HOME" not in os.environ


def test_java_reads_arrow_without_a_check_for_each_value(spark: SparkSession) -> None:
    java = spark.sparkContext._jvm
    assert java is not None
    assert java.java.lang.System.getProperty("arrow.enable_unsafe_memory_access") == "true"


def test_java_speaks_to_pythons_over_sockets_that_acknowledge_at_once(spark: SparkSession) -> None:
    def family() -> list[str]:
        """Which sockets the process of a task has open."""
        # Looked at while they are listed: so the descriptor that lists them is still there when its turn comes.
        with os.scandir("/proc/self/fd") as listed:
            sockets = [int(entry.name) for entry in listed if stat.S_ISSOCK(entry.stat().st_mode)]
        return [socket.socket(fileno=os.dup(number)).family.name for number in sockets]

    families = spark.sparkContext.parallelize([0], 1).map(lambda _: family()).collect()[0]
    assert families and set(families) == {"AF_UNIX"}
