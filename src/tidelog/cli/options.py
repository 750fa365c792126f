"""Options that many commands share: where the cluster is, how it is reached, and how output is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster
    from tidelog.client.security import Security

DEFAULT_BOOTSTRAP_SERVER: Final = "127.0.0.1:9092"
# How long somebody at a terminal is kept waiting for a cluster that is there but cannot answer.
TIMEOUT_S: Final = 20.0
BOOTSTRAP_VARIABLE: Final = "TIDELOG_BOOTSTRAP_SERVERS"
COMMAND_CONFIG_VARIABLE: Final = "TIDELOG_COMMAND_CONFIG"
# Where the context of a command keeps what its --command-config says.
PROTECTION: Final = "tidelog.protection"

F = TypeVar("F", bound=Callable[..., Any])

_server_option = click.option(
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


def _keep_protection(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    """Read the file and keep what it says of security for `protection`, whichever command wants it."""
    from tidelog.client.core.java_security import security_settings
    from tidelog.model.properties import read_properties

    if path is not None:
        ctx.meta[PROTECTION] = security_settings(read_properties(Path(path).read_text(encoding="latin-1")))


command_config_option = click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    envvar=COMMAND_CONFIG_VARIABLE,
    show_envvar=True,
    expose_value=False,
    callback=_keep_protection,
    help="TLS and SASL as properties of a client: security.protocol, sasl.…, ssl.….",
)


def bootstrap_option(command: F) -> F:
    """Where the cluster is, and how its connections are protected."""
    return _server_option(command_config_option(command))


def protection() -> dict[str, str]:
    """What --command-config says of TLS and SASL, by Kafka's names: settings for any client that the command makes."""
    context = click.get_current_context(silent=True)
    found: dict[str, str] = {} if context is None else context.meta.get(PROTECTION, {})
    return found


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

    return Cluster(bootstrap, client_id="tidelog-cli", timeout_s=TIMEOUT_S, security=security())


def security() -> Security:
    """The same for who makes connections itself."""
    from tidelog.client.security import security_in

    return security_in(protection())


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
