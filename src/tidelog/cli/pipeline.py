"""`tidelog pipeline`: run a data pipeline on Spark, list those of this machine, see how one is doing, stop it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tidelog.cli.failures import BadInput
from tidelog.cli.options import command_config_option, format_option, protection
from tidelog.cli.output import say, write_json, write_json_line, write_table
from tidelog.cli.pipeline_progress import Progress, lag_of, line_of
from tidelog.cli.spark_cluster import cluster

if TYPE_CHECKING:
    from tidelog.spark.pipeline.registry import PipelineState

DEFAULT_FOLDER: Final = "tidelog-pipelines"

folder_option = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Where checkpoints and states are kept.",
)


@click.group()
def pipeline() -> None:
    """Run data pipelines on Spark: topics in, SQL or Python, topics or Parquet out."""


pipeline.add_command(cluster)


@pipeline.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-b",
    "--bootstrap-server",
    "--bootstrap",
    "bootstrap",
    metavar="HOST:PORT",
    help="The cluster, instead of the one that the file names.",
)
@click.option(
    "--master",
    default="local[2]",
    show_default=True,
    help="Where Spark runs: local[N], spark://host:7077, sc://host:15002.",
)
@click.option("--once", is_flag=True, help="Process what is there now, then end.")
@click.option("--seconds", type=click.FloatRange(min=0), help="End by itself after this long.")
@command_config_option
@folder_option
@format_option
def run(
    file: Path, bootstrap: str | None, master: str, once: bool, seconds: float | None, folder: Path, format_: str
) -> int:
    """Run the pipeline of FILE (.toml or .py). Ctrl-C stops it after the batch that runs."""
    from dataclasses import replace

    _need_spark()
    from tidelog.spark.java import NoJava
    from tidelog.spark.pipeline.definition import AVAILABLE_NOW, InvalidPipeline, read_definition
    from tidelog.spark.pipeline.registry import ACTIVE, PipelineState, Registry
    from tidelog.spark.pipeline.running import PipelineRun
    from tidelog.spark.processes import SparkDidNotStart
    from tidelog.spark.session import is_connect

    try:
        definition = read_definition(file)
        if not is_connect(master):
            definition.session_settings()
    except InvalidPipeline as error:
        raise BadInput(str(error)) from None
    if bootstrap is not None:
        definition = replace(definition, bootstrap=bootstrap)
    definition = replace(definition, kafka={**definition.kafka, **protection()})
    if once:
        definition = replace(definition, trigger=AVAILABLE_NOW)
    registry = Registry(folder)
    known = registry.read(definition.name)
    if known is not None and known.status in ACTIVE and known.pid != os.getpid():
        raise BadInput(f"Pipeline '{definition.name}' runs already, as process {known.pid}.")
    now = time.time()
    state = PipelineState(definition.name, str(file.absolute()), os.getpid(), now, now, "starting")
    running = PipelineRun(definition, state, registry, _tell_json if format_ == "json" else Progress().tell, master)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: running.stop())
    try:
        ended = running.run(seconds)
    except (NoJava, SparkDidNotStart) as error:
        raise BadInput(str(error)) from None
    return 1 if ended.status == "failed" else 0


@pipeline.command("list")
@folder_option
@format_option
def list_(folder: Path, format_: str) -> None:
    """List the pipelines of this machine."""
    _need_spark()
    from dataclasses import asdict

    from tidelog.spark.pipeline.registry import Registry

    found = Registry(folder).all()
    if format_ == "json":
        write_json([asdict(state) for state in found])
    elif found:
        rows = [
            (state.name, state.status, state.batch_id, state.rows, round(state.rows_per_second), lag_of(state))
            for state in found
        ]
        write_table(["PIPELINE", "STATUS", "BATCH", "ROWS", "ROWS/S", "LAG"], rows)
    else:
        say(f"There are no pipelines in {folder}.")


@pipeline.command()
@click.argument("name")
@folder_option
@format_option
def status(name: str, folder: Path, format_: str) -> None:
    """Show how a pipeline is doing."""
    from dataclasses import asdict

    state = _known(name, folder)
    if format_ == "json":
        write_json(asdict(state))
    else:
        click.echo(line_of(state, colour=sys.stdout.isatty()))


@pipeline.command()
@click.argument("name")
@folder_option
def stop(name: str, folder: Path) -> None:
    """Stop a pipeline after the batch that runs."""
    state = _known(name, folder)
    from tidelog.spark.pipeline.registry import ACTIVE, Registry

    if state.status not in ACTIVE:
        say(f"Pipeline '{name}' does not run: it {'has ' if state.status == 'died' else 'is '}{state.status}.")
    elif Registry(folder).stop(state):
        say(f"Stopped pipeline '{name}'.")
    else:
        raise BadInput(f"Pipeline '{name}' (process {state.pid}) does not stop.")


def _tell_json(state: PipelineState) -> None:
    """A line for each thing that happened, as a document."""
    from dataclasses import asdict

    write_json_line(asdict(state))
    sys.stdout.flush()


def _known(name: str, folder: Path) -> PipelineState:
    _need_spark()
    from tidelog.spark.pipeline.registry import Registry

    state = Registry(folder).read(name)
    if state is None:
        raise BadInput(f"There is no pipeline '{name}' in {folder}.")
    return state


def _need_spark() -> None:
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise BadInput("Pipelines need Spark: pip install 'tidelog[spark]'.")
