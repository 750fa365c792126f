from __future__ import annotations

import sys
from pathlib import Path

from tidelog.spark.home import can_be_linked, linked_home


def test_a_linked_home_has_the_jars_and_programs_and_not_the_archive_of_sources() -> None:
    home = Path(linked_home())
    assert list((home / "jars").glob("spark-core_*.jar"))
    assert (home / "bin" / "spark-submit").is_file()
    assert not (home / "python").exists()


def test_a_spark_that_the_user_chose_and_one_elsewhere_keep_their_home() -> None:
    assert can_be_linked("local[2]", {})
    assert can_be_linked("local[2]", {"PYSPARK_PYTHON": sys.executable})
    assert not can_be_linked("local[2]", {"SPARK_HOME": "/opt/spark"})
    assert not can_be_linked("local[2]", {"PYSPARK_PYTHON": "/usr/bin/python3"})
    assert not can_be_linked("spark://master:7077", {})
