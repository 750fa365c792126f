"""Runs a query of Spark to its end, and again where only a busy machine was in the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

# Spark gives a Python process ten seconds to start and no way to give it more; a busy machine may need it.
TRIES: Final = 8
SLOW_START: Final = "failed to connect back"


def run_to_end(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """The query when it has ended; StreamingQueryException for what is not the machine's slowness."""
    for tries_left in range(TRIES - 1, -1, -1):
        query = start()
        try:
            query.awaitTermination()
            return query
        except StreamingQueryException as error:
            if SLOW_START not in str(error) or not tries_left:
                raise
    raise AssertionError("never here")
