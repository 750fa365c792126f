"""Pipelines as files: what can be written, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidelog.spark.pipeline.definition import InvalidPipeline, parse_definition, read_definition
from tidelog.spark.pipeline.lakes import LAKES, NoPackageFits, is_table_name, lake_settings

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
    assert "org.apache.hadoop:*" in settings["spark.jars.excludes"].split(",")
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"


def test_a_lake_that_is_not_built_for_this_spark_is_refused_unless_the_pipeline_brings_jars_itself() -> None:
    with pytest.raises(NoPackageFits, match=r"Iceberg .* Spark 4\.3\.0: pip install 'pyspark==4\.1\.\*'"):
        lake_settings("iceberg", (), {}, "4.3.0")
    assert lake_settings("iceberg", ("a:b:1",), {}, "4.3.0")["spark.jars.packages"] == "a:b:1"
    own = {"spark.jars": "/jars/iceberg.jar", "spark.sql.extensions": "mine"}
    assert lake_settings("iceberg", (), own, "4.3.0") == own
    assert lake_settings("parquet", (), {"spark.cores.max": "1"}, "4.3.0") == {"spark.cores.max": "1"}


@pytest.mark.parametrize(
    ("format_", "path", "named"),
    [
        ("iceberg", "lake.sales.orders", True),
        ("iceberg", "/lake/orders", False),
        ("delta", "orders", False),
        ("parquet", "orders", False),
    ],
)
def test_a_table_of_iceberg_is_named_and_others_are_folders(format_: str, path: str, named: bool) -> None:
    assert is_table_name(format_, path) is named


def test_settings_of_kafka_hold_for_all_sources_and_the_sink() -> None:
    definition = parse_definition(SIMPLE | {"kafka": {"security.protocol": "SSL"}}, "simple")
    assert definition.kafka_options() == {"kafka.security.protocol": "SSL"}


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
