"""Sparks beside the one that our source runs in, each with what is built for it alone, as `scripts/other_sparks.sh`
fetches them. Used by tests and by the benchmark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

CACHE: Final = Path(__file__).parents[2] / ".cache"
CONNECTOR: Final = "connector"
# Of Spark's Kafka connector; what else Maven brings with it Spark has itself.
CONNECTOR_JARS: Final = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")


def packages_of(name: str) -> str:
    """The folder with PySpark, for PYTHONPATH."""
    return str(CACHE / f"spark-{name}" / "python")


def jars_of(name: str) -> str:
    """What is built for it, for `spark.jars`."""
    wanted = CONNECTOR_JARS if name == CONNECTOR else ""
    found = (CACHE / f"spark-{name}" / "lib").glob("*.jar")
    return ",".join(str(jar) for jar in sorted(found) if jar.name.startswith(wanted))
