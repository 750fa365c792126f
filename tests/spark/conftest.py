"""One Spark for all tests of this folder: a JVM takes longer to start than most tests take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidelog.spark import spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.sql.warehouse.dir": str(folder),
        "spark.local.dir": str(folder),
        # Tests are short: what a second compiler makes quicker later would never be used.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = spark_session("tests", master="local[2]", settings=settings)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
