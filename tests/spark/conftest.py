"""One Spark for all tests of this folder: a JVM takes longer to start than most tests take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidelog.spark import spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    session = spark_session(
        "tests", master="local[2]", settings={"spark.sql.warehouse.dir": str(folder), "spark.local.dir": str(folder)}
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
