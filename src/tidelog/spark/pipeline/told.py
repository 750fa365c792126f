"""What Spark tells of a query, in our words: which batches ran, how far it is behind, why it failed. Pure.

`running.py` asks; nothing here talks to Spark.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql.streaming.listener import StreamingQueryProgress

# The step of a batch in which its rows go to the sink.
RAN: Final = "addBatch"
# So Spark calls what a source written in Python could not do.
SOURCE_FAILED: Final = "PYTHON_DATA_SOURCE"
JAVA_ENDED: Final = 'Exception in thread "main" '


def batches_after(told: int, progresses: Iterable[StreamingQueryProgress]) -> list[StreamingQueryProgress]:
    """What ran since. While there is nothing to do Spark tells of the batch to come, again and again: it is no news."""
    return [each for each in progresses if each.batchId > told and RAN in each.durationMs]


def lag_of(sources: Sequence[Any]) -> int | None:
    """How many offsets are behind what the sources had when the batch was planned; None when none of them says."""
    total, known = 0, False
    for source in sources:
        latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        if latest is None or end is None:
            continue
        known = True
        for topic, partitions in latest.items():
            total += sum(max(0, offset - end.get(topic, {}).get(one, 0)) for one, offset in partitions.items())
    return total if known else None


def _offsets(told: Any) -> dict[str, dict[str, int]] | None:
    """Offsets are JSON; PySpark 4.1 writes them as Python does."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except json.JSONDecodeError:
            told = ast.literal_eval(told)
    return told if isinstance(told, dict) else None


def ended_by(log: str) -> str | None:
    """Why Java ended before it could tell us, as its log says; None if it says nothing of the kind."""
    ends = [line for line in log.splitlines() if line.startswith(JAVA_ENDED)]
    return ends[-1].removeprefix(JAVA_ENDED).partition(": ")[2] or None if ends else None


def is_mistake(error: Exception) -> bool:
    """Whether the pipeline asks for what does not exist, which waiting does not mend; a source may yet be reached."""
    return isinstance(error, AnalysisException) and SOURCE_FAILED not in str(error)


def essence(text: str) -> str:
    """The sentence that matters: of a Python traceback in Java's, the last line of Python's."""
    lines = [line.strip() for line in text.split("=== Streaming Query ===")[0].splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("tidelog.") and ": " in line]
    if ours:
        return ours[-1].partition(": ")[2]
    # An error of Java's that comes alone: what was called, then ": " with the class of the error and what it says.
    causes = [line for line in lines if line.startswith(": ")]
    if causes:
        return causes[0].removeprefix(": ").partition(": ")[2] or causes[0].removeprefix(": ")
    return lines[0] if lines else text
