"""Where the words of what is started go: Spark's Java tells pages of which a terminal needs a sentence, or nothing.

For pipelines and `tidelog sql`; a program with a Spark of its own sees what Spark says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.logger import PySparkLogger

STDERR: Final = 2
# Where PySpark logs each error of a query, with all of Java's stack, before it raises it.
QUERY_ERRORS: Final = "SQLQueryContextLogger"


@contextmanager
def words_into(log: Path) -> Iterator[None]:
    """What is started meanwhile says what it has to say there: of a failure we tell one sentence, Java tells pages."""
    # For good: queries fail later, and whoever runs them tells why.
    PySparkLogger.getLogger(QUERY_ERRORS).disabled = True
    terminal = os.dup(STDERR)
    with log.open("ab") as file:
        os.dup2(file.fileno(), STDERR)
    try:
        yield
    finally:
        os.dup2(terminal, STDERR)
        os.close(terminal)
