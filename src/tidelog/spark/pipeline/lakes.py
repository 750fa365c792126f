"""Delta and Iceberg as sinks: what each asks of a session, and which of its releases is built for which Spark.

Their jars are tied to one version of Spark; a wrong one fails deep inside with an error of Java's linker. So a sink
that names no package gets the one that fits, or a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Lake:
    """A table format that comes as a package of its own."""

    name: str
    # The package by the version of Spark that it is built for.
    packages: Mapping[str, str]
    settings: Mapping[str, str]
    # Whether its tables have names in a catalog, or are folders.
    is_named: bool


LAKES: Final[Mapping[str, Lake]] = {
    "delta": Lake(
        "Delta",
        {version: f"io.delta:delta-spark_{version}_2.13:4.4.0" for version in ("4.1", "4.2")},
        {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        is_named=False,
    ),
    "iceberg": Lake(
        "Iceberg",
        {"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"},
        {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
        is_named=True,
    ),
}
# Groups of jars that PySpark has. Without them a lake is a sixth as much to fetch; and Spark cannot fetch what Maven
# has left half on a machine, of which these are most.
PYSPARK_HAS: Final = (
    "com.fasterxml.jackson.core",
    "com.fasterxml.jackson.datatype",
    "com.github.luben",
    "com.google.code.findbugs",
    "commons-logging",
    "commons-pool",
    "io.airlift",
    "javax.annotation",
    "org.apache.hadoop",
    "org.apache.logging.log4j",
    "org.apache.parquet",
    "org.apache.spark",
    "org.roaringbitmap",
    "org.scala-lang",
    "org.slf4j",
    "org.xerial.snappy",
)
# Settings that bring jars in another way than by `packages` of the sink.
JAR_SETTINGS: Final = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


def is_table_name(format_: str, path: str) -> bool:
    """Whether a sink is a table of a catalog, which Spark makes if it is not there, and not a folder."""
    lake = LAKES.get(format_)
    return lake is not None and lake.is_named and "/" not in path


class NoPackageFits(ValueError):
    """No release is known that runs in this Spark."""


def lake_settings(
    format_: str | None, packages: tuple[str, ...], given: Mapping[str, str], spark_version: str
) -> dict[str, str]:
    """What a session needs for a sink of this format, jars included; what the pipeline itself says comes last."""
    lake = LAKES.get(format_ or "")
    named = {"spark.jars.packages": ",".join(packages)} if packages else {}
    if lake is None:
        return {**named, **given}
    if not named and not any(name in given for name in JAR_SETTINGS):
        fitting = lake.packages.get(".".join(spark_version.split(".")[:2]))
        if fitting is None:
            raise NoPackageFits(_sentence(lake, spark_version))
        excluded = ",".join(f"{group}:*" for group in PYSPARK_HAS)
        named = {"spark.jars.packages": fitting, "spark.jars.excludes": excluded}
    return {**lake.settings, **named, **given}


def _sentence(lake: Lake, spark_version: str) -> str:
    *_, newest = lake.packages
    message = f"No release of {lake.name} is known here that is built for Spark {spark_version}"
    message += f": pip install 'pyspark=={newest}.*', the newest for which there is one"
    return f"{message}. If there is one for yours by now, name it: packages = ['group:artifact:version'] in [sink]."
