"""A pipeline as its file describes it, in TOML or as a Python module: read, checked, and held as one value.

`tidelog pipeline` reads it; `frames.py` builds the query from it. What is wrong is said with the place in the file.
"""

from __future__ import annotations

import runpy
import tomllib
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyspark
from pyspark.sql import DataFrame

from tidelog.spark.pipeline.lakes import LAKES, NoPackageFits, lake_settings

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_TRIGGER: Final = "1 second"
AVAILABLE_NOW: Final = "available-now"
MODES: Final = ("append", "complete")
# Formats that a sink names with their path in one word.
SHORT: Final = ("parquet", *LAKES)

Transform: TypeAlias = Callable[..., DataFrame]


class InvalidPipeline(ValueError):
    """A file that describes no pipeline."""


@dataclass(frozen=True, slots=True)
class SourceDefinition:
    """A topic as a view for the transform: a stream, or the newest value of each key as a table."""

    name: str
    topic: str
    # Fields of JSON values as columns, as DDL: "id string, amount double". Without it, key and value as they are.
    schema: str | None = None
    starting: str = "earliest"
    table: bool = False
    # Column and delay, as in "at, 10 seconds".
    watermark: tuple[str, str] | None = None
    # Rows that are equal in these columns count once, for as long as the watermark remembers.
    dedupe: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkDefinition:
    """Where rows go: a topic (or the column "topic"), or a table of a format that Spark streams to."""

    topic: str | None = None
    key: str | None = None
    # Together: "parquet", or whatever its packages bring, and the folder.
    format: str | None = None
    path: str | None = None
    # Jars with what they need, as Maven names them ("group:artifact:version").
    packages: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    mode: str = "append"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PipelineDefinition:
    """All of a pipeline."""

    name: str
    sources: tuple[SourceDefinition, ...]
    sink: SinkDefinition
    sql: str | None = None
    transform: Transform | None = None
    bootstrap: str = DEFAULT_BOOTSTRAP
    trigger: str = DEFAULT_TRIGGER
    checkpoint: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    # Properties of all its clients, by Kafka's names: how connections are protected, above all.
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)

    def session_settings(self) -> dict[str, str]:
        """What its session is started with: Spark fetches the packages of the sink from Maven Central."""
        try:
            return lake_settings(self.sink.format, self.sink.packages, self.settings, pyspark.__version__)
        except NoPackageFits as error:
            raise InvalidPipeline(str(error)) from None

    def kafka_options(self) -> dict[str, str]:
        """What every source and sink of it is told."""
        return {f"kafka.{name}": value for name, value in self.kafka.items()}


def read_definition(path: Path) -> PipelineDefinition:
    """Read FILE.toml, or FILE.py with a dict PIPELINE and a function transform(spark, **sources)."""
    if not path.is_file():
        raise InvalidPipeline(f"There is no file {path}.")
    if path.suffix == ".py":
        module = _run(path)
        tree, transform = module.get("PIPELINE"), module.get("transform")
        if not isinstance(tree, dict):
            raise InvalidPipeline(f"{path} has no dict PIPELINE.")
        return parse_definition(tree, path.stem, transform)
    try:
        return parse_definition(tomllib.loads(path.read_text()), path.stem)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidPipeline(f"{path} is no TOML: {error}.") from None


def _run(path: Path) -> dict[str, Any]:
    """The names of a Python file. What goes wrong in it is its author's, who is told the line and not our way there."""
    try:
        return runpy.run_path(str(path))
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        where = path if line is None else f"{path}, line {line}"
        raise InvalidPipeline(f"{where}: {type(error).__name__}: {error}") from None


def parse_definition(
    tree: Mapping[str, Any], default_name: str, transform: Transform | None = None
) -> PipelineDefinition:
    """The value of what a file says."""
    given = _Table(tree, "the pipeline")
    sources = given.table("sources")
    if not sources.names():
        raise InvalidPipeline("The pipeline has no sources: write [sources.orders] with a topic.")
    sql = given.table("transform", required=False).text("sql")
    if (sql is None) == (transform is None):
        raise InvalidPipeline("The pipeline needs one transform: sql in [transform], or a Python function.")
    definition = PipelineDefinition(
        name=given.text("name") or default_name,
        sources=tuple(_source(name, sources.table(name)) for name in sources.names()),
        sink=_sink(given.table("sink")),
        sql=sql,
        transform=transform,
        bootstrap=given.text("bootstrap") or DEFAULT_BOOTSTRAP,
        trigger=given.text("trigger") or DEFAULT_TRIGGER,
        checkpoint=given.text("checkpoint"),
        settings=given.texts("spark"),
        kafka=given.texts("kafka"),
    )
    given.nothing_else()
    if all(source.table for source in definition.sources):
        raise InvalidPipeline("Every source is a table: one has to be a stream.")
    return definition


def _source(name: str, given: _Table) -> SourceDefinition:
    watermark = given.text("watermark")
    column, comma, delay = (watermark or "").partition(",")
    if watermark is not None and not comma:
        raise InvalidPipeline(f"watermark of source '{name}' is a column and a delay: \"at, 10 seconds\".")
    source = SourceDefinition(
        name=name,
        topic=given.required("topic"),
        schema=given.text("schema"),
        starting=given.text("starting") or "earliest",
        table=given.flag("table"),
        watermark=(column.strip(), delay.strip()) if watermark else None,
        dedupe=given.list("dedupe"),
        options=given.texts("options"),
    )
    given.nothing_else()
    if source.dedupe and source.watermark is None:
        raise InvalidPipeline(f"dedupe of source '{name}' needs a watermark: it cannot remember for ever.")
    return source


def _sink(given: _Table) -> SinkDefinition:
    short = {name: path for name in SHORT if (path := given.text(name)) is not None}
    format_, path = given.text("format"), given.text("path")
    if len(short) > 1:
        raise InvalidPipeline(f"The sink has {' and '.join(short)}: it can be one of them.")
    for name, where in short.items():
        if format_ is not None or path is not None:
            raise InvalidPipeline(f"The sink has {name}: that is its format and its path already.")
        format_, path = name, where
    if (format_ is None) != (path is None):
        raise InvalidPipeline("format and path of the sink belong together.")
    sink = SinkDefinition(
        topic=given.text("topic"),
        key=given.text("key"),
        format=format_,
        path=path,
        packages=given.list("packages"),
        partition_by=given.list("partition_by"),
        mode=given.text("mode") or "append",
        options=given.texts("options"),
    )
    given.nothing_else()
    if sink.topic is not None and sink.path is not None:
        raise InvalidPipeline("The sink is a topic or files, not both.")
    if sink.mode not in MODES:
        raise InvalidPipeline(f"mode of the sink is {' or '.join(MODES)}, not '{sink.mode}'.")
    return sink


class _Table:
    """A table of the file; every name in it has to be known."""

    def __init__(self, tree: Mapping[str, Any], place: str) -> None:
        self._tree = tree
        self._place = place
        self._asked: set[str] = set()

    def names(self) -> list[str]:
        self._asked |= self._tree.keys()
        return list(self._tree)

    def text(self, name: str) -> str | None:
        found: str | None = self._typed(name, str, "text")
        return found

    def required(self, name: str) -> str:
        found = self.text(name)
        if not found:
            raise InvalidPipeline(f"{self._place} has no {name}.")
        return found

    def flag(self, name: str) -> bool:
        return bool(self._typed(name, bool, "true or false"))

    def list(self, name: str) -> tuple[str, ...]:
        found: Any = self._typed(name, list, "a list of texts") or []
        if not all(isinstance(each, str) for each in found):
            raise InvalidPipeline(f"{name} of {self._place} is a list of texts.")
        return tuple(found)

    def texts(self, name: str) -> dict[str, str]:
        found: Any = self._typed(name, dict, "a table") or {}
        return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in found.items()}

    def table(self, name: str, *, required: bool = True) -> _Table:
        found: Any = self._typed(name, dict, "a table")
        if found is None and required:
            raise InvalidPipeline(f"{self._place} has no [{name}].")
        return _Table(found or {}, f"[{name}]")

    def nothing_else(self) -> None:
        unknown = sorted(self._tree.keys() - self._asked)
        if unknown:
            known = ", ".join(sorted(self._asked))
            raise InvalidPipeline(f"{self._place} has '{unknown[0]}', which is not known; there are {known}.")

    def _typed(self, name: str, kind: type, meant: str) -> Any:
        self._asked.add(name)
        found = self._tree.get(name)
        if found is not None and not isinstance(found, kind):
            raise InvalidPipeline(f"{name} of {self._place} is {meant}, not {found!r}.")
        return found
