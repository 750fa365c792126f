"""Pipelines as files: what can be written, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidelog.spark.pipeline.definition import InvalidPipeline, parse_definition, read_definition
from tidelog.spark.pipeline.running import batches_after, essence, lag_of

EXAMPLES = Path(__file__).parents[3] / "examples" / "pipelines"
SIMPLE: dict[str, Any] = {
    "sources": {"orders": {"topic": "orders"}},
    "transform": {"sql": "select * from orders"},
    "sink": {"topic": "out"},
}


def test_every_example_can_be_read() -> None:
    files = [path for path in EXAMPLES.iterdir() if path.suffix in (".toml", ".py")]

    definitions = {path.stem: read_definition(path) for path in files}

    assert sorted(definitions) == ["aggregate", "archive", "dedupe", "join", "quality", "route", "wordcount"]
    assert definitions["aggregate"].sources[0].watermark == ("at", "10 seconds")
    assert definitions["wordcount"].transform is not None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sources": {}}, "has no sources"),
        ({"sources": {"orders": {}}}, r"\[orders\] has no topic"),
        ({"transform": {}}, "needs one transform"),
        ({"sinc": {}}, "has 'sinc', which is not known"),
        ({"sink": {"topic": "a", "parquet": "b"}}, "not both"),
        ({"sink": {"parquet": "a", "path": "b"}}, "its format and its path already"),
        ({"sink": {"format": "orc"}}, "belong together"),
        ({"sink": {"topic": "a", "mode": "update"}}, "append or complete"),
        ({"sources": {"orders": {"topic": "a", "table": True}}}, "has to be a stream"),
        ({"sources": {"orders": {"topic": "a", "dedupe": ["x"]}}}, "needs a watermark"),
        ({"sources": {"orders": {"topic": "a", "watermark": "at"}}}, "a column and a delay"),
        ({"trigger": 5}, "trigger of the pipeline is text, not 5"),
    ],
)
def test_mistakes_are_told_with_their_place(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidPipeline, match=sentence):
        parse_definition(SIMPLE | change, "simple")


def test_a_sink_may_be_any_format_that_a_package_brings() -> None:
    sink = {"format": "delta", "path": "lake", "packages": ["io.delta:delta-spark_2.13:1", "a:b:2"]}

    definition = parse_definition(SIMPLE | {"sink": sink, "spark": {"spark.cores.max": 1}}, "simple")

    assert (definition.sink.format, definition.sink.path) == ("delta", "lake")
    assert definition.session_settings() == {
        "spark.jars.packages": "io.delta:delta-spark_2.13:1,a:b:2",
        "spark.cores.max": "1",
    }


def test_parquet_is_short_for_its_format_and_path() -> None:
    sink = parse_definition(SIMPLE | {"sink": {"parquet": "lake"}}, "simple").sink

    assert (sink.format, sink.path, sink.packages) == ("parquet", "lake", ())


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


def test_of_a_failure_inside_of_spark_the_sentence_that_matters_is_told() -> None:
    text = (
        "[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):\n  File x\n"
        "tidelog.spark.errors.DataLoss: Offsets 1 to 3 of t-0 are gone.\n SQLSTATE: 38000\n=== Streaming Query ==="
    )

    assert essence(text) == "Offsets 1 to 3 of t-0 are gone."
