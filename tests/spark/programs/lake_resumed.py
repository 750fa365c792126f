"""Resumes a pipeline into a lake, lets it write its newest batch once more, and reads the table with Spark.

Usage: lake_resumed.py FILE FOLDER, in the Spark that the lake is built for. Prints one JSON object of what is in the
table as its last line. All in one process: Java is started once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyspark

from tidelog.cli.commands import run
from tidelog.spark import spark_session
from tidelog.spark.pipeline.definition import read_definition


def main(file: Path, folder: Path) -> None:
    definition = read_definition(file)
    once = ["pipeline", "run", str(file), "--once", "--folder", str(folder)]
    assert run(once) == 0
    # As if the driver had died after the table took the batch and before its checkpoint said so.
    checkpoint = folder / definition.name / "checkpoint"
    newest = forget_newest(checkpoint / "commits")
    assert run(once) == 0

    spark = spark_session("look", master="local[2]", settings=definition.session_settings())
    sink = definition.sink
    assert sink.path is not None
    table = spark.read.table(sink.path) if sink.format == "iceberg" else spark.read.format("delta").load(sink.path)
    rows = table.collect()
    numbers = [row.number for row in rows]
    cities = [row.city for row in rows]
    seen = {
        "spark": ".".join(pyspark.__version__.split(".")[:2]),
        "again": (checkpoint / "commits" / newest).exists(),
        "rows": len(rows),
        "numbers": [min(numbers), max(numbers), len(set(numbers))],
        "cities": {city: cities.count(city) for city in sorted(set(cities))},
    }
    spark.stop()
    print(json.dumps(seen))


def forget_newest(commits: Path) -> str:
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink(missing_ok=True)
    return str(newest)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
