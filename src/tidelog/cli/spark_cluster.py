"""`tidelog pipeline cluster`: a Spark cluster on this machine, for pipelines that one process is too small for."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

import click

from tidelog.cli.failures import BadInput
from tidelog.cli.output import say

DEFAULT_FOLDER: Final = "tidelog-spark"
MASTER_PORT: Final = 7077
CONNECT_PORT: Final = 15002


@click.command()
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--cores", type=click.IntRange(min=1), default=1, show_default=True, help="Of each worker.")
@click.option("--memory", default="1g", show_default=True, help="Of each worker, for its executors: 1g, 700m.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address that the others reach it by.")
@click.option("--port", type=click.IntRange(0, 65535), default=MASTER_PORT, show_default=True)
@click.option("--connect", is_flag=True, help="A server of Spark Connect beside it.")
@click.option("--connect-port", type=click.IntRange(0, 65535), default=CONNECT_PORT, show_default=True)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Where logs and the executors' files are kept.",
)
def cluster(
    workers: int, cores: int, memory: str, host: str, port: int, connect: bool, connect_port: int, folder: Path
) -> None:
    """Start a Spark master and workers here, each a process of its own. Ctrl-C stops them."""
    from contextlib import ExitStack
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise BadInput("A Spark cluster needs Spark: pip install 'tidelog[spark]'.")
    from tidelog.spark.connect_server import ConnectServer
    from tidelog.spark.java import NoJava
    from tidelog.spark.processes import SparkDidNotStart
    from tidelog.spark.standalone import StandaloneCluster

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as running:
        try:
            started = StandaloneCluster(folder, workers=workers, cores=cores, memory=memory, host=host, port=port)
            running.enter_context(started)
            urls = [started.url]
            if connect:
                server = ConnectServer(folder, master=started.url, port=connect_port)
                urls.append(running.enter_context(server).url)
        except (NoJava, SparkDidNotStart) as error:
            raise BadInput(str(error)) from None
        except KeyboardInterrupt:
            return
        say(f"A master and {workers} workers run; their logs are in {folder}. Ctrl-C stops them.")
        for url in urls:
            say(f"tidelog pipeline run FILE --master {url}")
        try:
            signal.pause()
        except KeyboardInterrupt:
            say("Stopped.")
