"""How often each word was said so far, by a transform in Python; all counts are written whenever one changes."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

PIPELINE = {
    "sources": {"lines": {"topic": "lines"}},
    "sink": {"topic": "words", "key": "word", "mode": "complete"},
}


def transform(spark: SparkSession, lines: DataFrame) -> DataFrame:
    words = lines.select(F.explode(F.split(F.lower(lines.value.cast("string")), r"\W+")).alias("word"))
    return words.where("word <> ''").groupBy("word").count()
