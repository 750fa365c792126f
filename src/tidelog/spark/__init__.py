"""Topics in Spark, through PySpark and without a jar: `spark.read.format("tidelog")`, and so for streams and writing.

`register(spark)` makes the format known to a session; `spark_session()` starts one that knows it.
Needs `tidelog[spark]`.
"""

from __future__ import annotations

from tidelog.spark.session import register, spark_session

__all__ = ["register", "spark_session"]
