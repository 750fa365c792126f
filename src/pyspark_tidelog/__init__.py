"""Where PySpark looks by itself: it imports every package named `pyspark_...` and registers its `DefaultSource`."""

from __future__ import annotations

from tidelog.spark.source import FoundSource as DefaultSource

__all__ = ["DefaultSource"]
