"""What is told of a query: its batches, its lag, and of a failure the sentence that matters."""

from __future__ import annotations

from uuid import UUID

from pyspark.errors import AnalysisException, ParseException, StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidelog.spark.pipeline.told import batches_after, ended_by, essence, is_mistake, lag_of


def progress(batch_id: int, rows: int, *steps: str) -> StreamingQueryProgress:
    """As Spark Connect brings it: the sums over the sources are left to the reader."""
    source = {"description": "", "startOffset": {}, "endOffset": {}, "latestOffset": {}, "numInputRows": rows}
    source |= {"inputRowsPerSecond": 1.0, "processedRowsPerSecond": 2.0}
    told = {"id": str(UUID(int=1)), "runId": str(UUID(int=2)), "name": "orders", "timestamp": "", "batchId": batch_id}
    told |= {"batchDuration": 5, "durationMs": dict.fromkeys(steps, 5), "stateOperators": [], "sources": [source]}
    return StreamingQueryProgress.fromJson(told | {"sink": {"description": "", "numOutputRows": 0, "metrics": {}}})


def test_a_batch_is_told_once_when_it_ran_and_not_while_it_is_awaited() -> None:
    seen = [progress(3, 9, "addBatch"), progress(4, 0, "latestOffset"), progress(4, 7, "latestOffset", "addBatch")]

    assert [(each.batchId, each.numInputRows) for each in batches_after(2, seen)] == [(3, 9), (4, 7)]
    assert batches_after(3, seen[:2]) == []


def test_the_lag_is_what_sources_have_beyond_the_batch() -> None:
    sources = [{"latestOffset": '{"t": {"0": 10, "1": 7}}', "endOffset": {"t": {"0": 4, "1": 7}}}, {"endOffset": None}]

    assert lag_of(sources) == 6
    assert lag_of([{"endOffset": None}]) is None


def test_offsets_as_an_older_spark_writes_them_are_read_too() -> None:
    assert lag_of([{"latestOffset": "{'t': {'0': 10}}", "endOffset": "{'t': {'0': 4}}"}]) == 6
    assert lag_of([{"latestOffset": "None", "endOffset": "{'t': {'0': 4}}"}]) is None


def test_of_a_failure_inside_of_spark_the_sentence_that_matters_is_told() -> None:
    text = (
        "[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):\n  File x\n"
        "tidelog.spark.errors.DataLoss: Offsets 1 to 3 of t-0 are gone.\n SQLSTATE: 38000\n=== Streaming Query ==="
    )

    assert essence(text) == "Offsets 1 to 3 of t-0 are gone."


def test_an_error_of_java_that_comes_alone_is_told_by_what_it_says() -> None:
    called = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext."
    text = f"{called}\n: org.apache.spark.SparkException: No such master.\n\tat org.apache.spark.SparkContext$.x(y:1)"
    assert essence(text) == "No such master."


def test_of_a_java_that_ended_before_it_could_tell_the_log_says_why() -> None:
    log = 'x\nException in thread "main" java.lang.RuntimeException: [download failed: a#b;1!b.jar]\n\tat y(z:1)'
    assert ended_by(log) == "[download failed: a#b;1!b.jar]"
    assert ended_by("WARN nothing") is None


def test_a_mistake_in_sql_is_no_failure_that_may_pass() -> None:
    assert is_mistake(AnalysisException("[UNRESOLVED_COLUMN] no column orderid"))
    assert is_mistake(ParseException("[PARSE_SYNTAX_ERROR] at 'SELCT'"))
    assert not is_mistake(AnalysisException("[PYTHON_DATA_SOURCE_ERROR] no broker answers"))
    assert not is_mistake(StreamingQueryException("[STREAM_FAILED] the broker went away"))
