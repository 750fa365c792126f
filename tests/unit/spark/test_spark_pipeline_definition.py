"""Pipelines as files: what can be written, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidelog.spark.pipeline.definition import InvalidPipeline, parse_definition, read_definition
from tidelog.spark.pipeline.lakes import LAKES, NoPackageFits, lake_settings
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
        **LAKES["delta"].settings,
        "spark.jars.packages": "io.delta:delta-spark_2.13:1,a:b:2",
        "spark.cores.max": "1",
    }


def test_parquet_is_short_for_its_format_and_path() -> None:
    sink = parse_definition(SIMPLE | {"sink": {"parquet": "lake"}}, "simple").sink

    assert (sink.format, sink.path, sink.packages) == ("parquet", "lake", ())


def test_delta_and_iceberg_are_short_for_their_format_and_path_too() -> None:
    for name in LAKES:
        sink = parse_definition(SIMPLE | {"sink": {name: "lake"}}, "simple").sink
        assert (sink.format, sink.path) == (name, "lake")
    with pytest.raises(InvalidPipeline, match="delta and iceberg: it can be one"):
        parse_definition(SIMPLE | {"sink": {"delta": "a", "iceberg": "b"}}, "simple")


def test_a_lake_gets_the_package_that_is_built_for_the_spark_that_runs() -> None:
    settings = lake_settings("delta", (), {}, "4.2.1")
    assert settings["spark.jars.packages"] == "io.delta:delta-spark_4.2_2.13:4.4.0"
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"


def test_a_lake_that_is_not_built_for_this_spark_is_refused_unless_the_pipeline_brings_jars_itself() -> None:
    with pytest.raises(NoPackageFits, match=r"Iceberg .* Spark 4\.3\.0; there are for 4\.0 and 4\.1"):
        lake_settings("iceberg", (), {}, "4.3.0")
    assert lake_settings("iceberg", ("a:b:1",), {}, "4.3.0")["spark.jars.packages"] == "a:b:1"
    own = {"spark.jars": "/jars/iceberg.jar", "spark.sql.extensions": "mine"}
    assert lake_settings("iceberg", (), own, "4.3.0") == own
    assert lake_settings("parquet", (), {"spark.cores.max": "1"}, "4.3.0") == {"spark.cores.max": "1"}


def test_settings_of_kafka_hold_for_all_sources_and_the_sink() -> None:
    definition = parse_definition(SIMPLE | {"kafka": {"security.protocol": "SSL"}}, "simple")
    assert definition.kafka_options() == {"kafka.security.protocol": "SSL"}


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


def test_an_error_of_java_that_comes_alone_is_told_by_what_it_says() -> None:
    called = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext."
    text = f"{called}\n: org.apache.spark.SparkException: No such master.\n\tat org.apache.spark.SparkContext$.x(y:1)"
    assert essence(text) == "No such master."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import nothing_of_this_name", r"line 1: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("PIPELINE = {\n", r"line 1: SyntaxError"),
        ("x = 1\ny = x / 0", r"line 2: ZeroDivisionError"),
        ("x = 1", "has no dict PIPELINE"),
    ],
)
def test_a_mistake_in_a_python_file_is_told_with_its_line(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(InvalidPipeline, match=sentence):
        read_definition(file)
