"""`tidelog up`, `server-start` and `server-stop`: the broker as a process, in this terminal or behind it.

Builds the properties that `broker/process.py` runs with; what they mean is decided there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tidelog.cli.failures import BadInput
from tidelog.cli.options import KeyValue
from tidelog.cli.output import say
from tidelog.model.durability import DURABILITIES, PAGE_CACHE, durability_properties

if TYPE_CHECKING:
    from tidelog.broker.assembly import BrokerNode

DEFAULT_DATA: Final = "tidelog-data"
DEFAULT_PORT: Final = 9092
METRICS_PORT: Final = "tidelog.metrics.port"
# On a developer's large disk the share that is free says little; the number of bytes still counts.
FOR_DEVELOPERS: Final = {"tidelog.disk.free.min.percent": "0"}
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


@click.command()
@click.option(
    "--data", type=click.Path(file_okay=False), default=DEFAULT_DATA, show_default=True, help="Where logs are kept."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0 for any free one."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve Prometheus metrics on this port; several brokers on those after it.",
)
@click.option(
    "--brokers", type=click.IntRange(1), default=1, show_default=True, help="So many, each a process, one cluster."
)
@click.option("--restart/--no-restart", default=True, help="Start a broker of several again when it ends by itself.")
@click.option(
    "--durability",
    type=click.Choice(list(DURABILITIES)),
    default=PAGE_CACHE,
    show_default=True,
    help="fsync: nothing is acknowledged before it is on the disk.",
)
@click.option(
    "-c", "--config", "configs", type=KeyValue(), multiple=True, help="Any of Kafka's properties; may be repeated."
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="warning", show_default=True)
def up(
    data: str,
    host: str,
    port: int,
    metrics_port: int | None,
    brokers: int,
    restart: bool,
    durability: str,
    configs: tuple[tuple[str, str], ...],
    log_level: str,
) -> int:
    """Start a broker, or a cluster of several, here and now. Ctrl-C stops it."""
    settings = {**FOR_DEVELOPERS, **durability_properties(durability), **dict(configs)}
    _refuse_other_data(Path(data), brokers)
    if brokers > 1:
        return _up_with_several(brokers, data, host, port, metrics_port, settings, log_level, restart)
    from tidelog.broker.process import run_broker
    from tidelog.cli.running import refuse_taken_port

    refuse_taken_port(host, port)
    properties = broker_properties(data, host, port, metrics_port, settings)
    code = run_broker(properties, lambda node: _show_panel(node, host, data), log_level=log_level)
    if code == 0:
        say("Stopped.")
    return code


@click.command("server-start", context_settings={"ignore_unknown_options": False})
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--daemon", "-daemon", is_flag=True, help="Start in the background and return when it answers.")
@click.option(
    "--override", "overrides", type=KeyValue(), multiple=True, help="key=value instead of the file's; may be repeated."
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", show_default=True)
@click.option("--log-json", is_flag=True, help="Log JSON lines.")
def server_start(
    file: str, daemon: bool, overrides: tuple[tuple[str, str], ...], log_level: str, log_json: bool
) -> int:
    """Start a broker with a server.properties FILE, in Kafka's own property names."""
    return start_server(file, dict(overrides), daemon=daemon, log_level=log_level, log_as_json=log_json)


@click.command("server-stop")
@click.option("--node-id", type=int, help="Only the broker with this node.id.")
def server_stop(node_id: int | None) -> int:
    """Stop the brokers that server-start started."""
    return stop_servers(node_id)


def broker_properties(
    data: str, host: str, port: int, metrics_port: int | None, configs: Mapping[str, str]
) -> dict[str, str]:
    """The properties of a broker that listens in one place; `configs` has the last word."""
    properties = {
        "log.dirs": str(Path(data).resolve()),
        "listeners": f"PLAINTEXT://{host}:{port}",
    }
    if metrics_port is not None:
        properties[METRICS_PORT] = str(metrics_port)
    return {**properties, **configs}


def start_server(
    file: str, overrides: Mapping[str, str], *, daemon: bool, log_level: str = "info", log_as_json: bool = False
) -> int:
    """Run a broker from a file, in this process or in the background; the exit code."""
    from tidelog.cli.running import announce, start_in_background
    from tidelog.model.properties import read_properties

    path = Path(file)
    # Java reads these files as Latin-1; everything outside of ASCII is meant to be escaped.
    properties = {**read_properties(path.read_text(encoding="latin-1")), **overrides}
    if daemon:
        return start_in_background(path, properties, overrides)
    from tidelog.broker.process import run_broker

    with announce(properties) as announced:
        return run_broker(
            properties,
            lambda node: announced.ready(node.port),
            log_level=log_level,
            log_as_json=log_as_json,
        )


def stop_servers(node_id: int | None) -> int:
    """Stop announced brokers and wait for them; the exit code."""
    from tidelog.cli.running import announced_servers, stop

    servers = [server for server in announced_servers() if node_id is None or server.node_id == node_id]
    if not servers:
        print("No kafka server to stop")
        return 1
    stopped = [stop(server) for server in servers]
    return 0 if all(stopped) else 1


def _refuse_other_data(data: Path, brokers: int) -> None:
    """A folder belongs to one broker or to a cluster of so many: whoever opened it otherwise would see half of it."""
    held = len(list(data.glob("broker-*.properties")))
    if held and held != brokers:
        raise BadInput(f"{data} holds a cluster of {held}: start it with --brokers {held}, or give another --data.")
    if brokers > 1 and (data / "meta.properties").exists():
        raise BadInput(f"{data} holds the data of a single broker: give another --data for a cluster.")


def _up_with_several(
    brokers: int,
    data: str,
    host: str,
    port: int,
    metrics_port: int | None,
    configs: dict[str, str],
    log_level: str,
    restart: bool,
) -> int:
    from tidelog.cli.local_cluster import run_local_cluster

    def show(addresses: str) -> None:
        first = addresses.partition(",")[0]
        lines = {
            "connect to": addresses,
            "data": f"{Path(data).resolve()}/broker-1 …",
            "watch": f"tidelog watch -b {first}",
            "try": f"tidelog topics create hello -b {first}",
            "stop": "Ctrl-C",
        }
        _show_lines(f"Tidelog is up: {brokers} brokers", lines)

    code = run_local_cluster(
        brokers,
        data,
        host,
        port,
        configs,
        metrics_port=metrics_port,
        log_level=log_level,
        restart=restart,
        on_ready=show,
    )
    if code == 0:
        say("Stopped.")
    return code


def _show_panel(node: BrokerNode, host: str, data: str) -> None:
    address = f"{'127.0.0.1' if host == '0.0.0.0' else host}:{node.port}"
    lines = {
        "connect to": address,
        "data": str(Path(data).resolve()),
        "metrics": node.metrics_url or "off (--metrics-port PORT)",
        "try": f"tidelog topics create hello -b {address}",
        "stop": "Ctrl-C",
    }
    _show_lines("Tidelog is up", lines)


def _show_lines(title: str, lines: Mapping[str, str]) -> None:
    if not sys.stderr.isatty():
        say("  ".join(f"{name}: {value}" for name, value in lines.items()))
        return
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in lines.items():
        table.add_row(Text(name, style="dim"), Text(value, style="bold" if name == "connect to" else ""))
    Console(stderr=True).print(Panel(table, title=title, border_style="green", expand=False))
