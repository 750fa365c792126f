"""What Spark's Python processes load, and what they leave to themselves between tasks."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

# Heavy, and for tasks alone: a stream's driver plans, it reads and writes no rows.
FOR_TASKS: Final = (
    "pyarrow.compute",
    "tidelog.client.blocking.producer",
    "tidelog.client.typed.decoding",
    "tidelog.log.held_segments",
    "tidelog.wire.columns.decode",
)


def said_by(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_driver_of_a_stream_loads_nothing_that_only_tasks_need() -> None:
    program = """
import sys
from tidelog.spark.source import TidelogSource
source = TidelogSource({"subscribe": "orders", "kafka.bootstrap.servers": "127.0.0.1:1"})
source.streamReader(source.schema())
print(" ".join(sys.modules))
"""
    loaded = set(said_by(program).split())
    assert "tidelog.spark.stream_limits" in loaded
    assert loaded.isdisjoint(FOR_TASKS)


def test_after_the_first_task_modules_are_not_looked_at_for_garbage_and_what_comes_later_is() -> None:
    program = """
import gc
from tidelog.spark.between_tasks import settle
settle()
first = gc.get_freeze_count()
later = [[] for _ in range(1000)]
settle()
print(first > 1000, gc.get_freeze_count() <= first, any(each is later for each in gc.get_objects()))
"""
    assert said_by(program) == "True True True"
