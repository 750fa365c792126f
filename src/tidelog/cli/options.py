"""Options that many commands share: where the cluster is, and how output is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster

DEFAULT_BOOTSTRAP_SERVER: Final = "127.0.0.1:9092"
# How long somebody at a terminal is kept waiting for a cluster that is there but cannot answer.
TIMEOUT_S: Final = 20.0
BOOTSTRAP_VARIABLE: Final = "TIDELOG_BOOTSTRAP_SERVERS"

F = TypeVar("F", bound=Callable[..., Any])

bootstrap_option = click.option(
    "-b",
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT",
    envvar=BOOTSTRAP_VARIABLE,
    default=DEFAULT_BOOTSTRAP_SERVER,
    show_default=True,
    show_envvar=True,
    help="One or more brokers of the cluster.",
)

format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="A table for people, or JSON for programs.",
)


def connect(bootstrap: str) -> Cluster:
    """The cluster that the option names; nothing is sent yet."""
    from tidelog.client.cluster import Cluster

    return Cluster(bootstrap, client_id="tidelog-cli", timeout_s=TIMEOUT_S)


class KeyValue(click.ParamType[tuple[str, str]]):
    """`name=value`."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value[0], value[1]
        key, equals, text = str(value).partition("=")
        if not equals or not key:
            self.fail(f"'{value}' is not of the form key=value.", param, ctx)
        return key.strip(), text


class Moment(click.ParamType[int]):
    """A point in time: an ISO date or time, milliseconds since 1970, or "-15m" for that long ago."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from tidelog.client.moments import parse_moment

        if isinstance(value, int):
            return value
        try:
            return parse_moment(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
