"""How Kafka's commands read their arguments: long options with one dash or two, wrong ones explained with exit code 1.

Every `kafka-*` module builds a `KafkaParser`. Spellings that Kafka has dropped but that notes and scripts still hold
are taken with one line of warning.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tidelog.cli.failures import BadInput
from tidelog.model.properties import read_properties
from tidelog.model.version import __version__

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster

# The Kafka whose flags and output these commands follow.
KAFKA_VERSION: Final = "4.2.0"
# A broker that was started a moment ago may not listen yet; Kafka's tools go on trying for a minute.
BOOTSTRAP_PATIENCE_S: Final = 5.0
MILLISECONDS: Final = 1000


def warn(sentence: str) -> None:
    """One line on standard error."""
    print(f"Warning: {sentence}", file=sys.stderr)


class KafkaParser(argparse.ArgumentParser):
    """An argument parser that behaves like the one of Kafka's tools."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(
            prog=name,
            description=description,
            add_help=False,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=40, width=100),
        )
        self._replaced: dict[str, str] = {}
        self.add_argument("--help", action="store_true", help="Print usage information.")
        self.add_argument("--version", action="store_true", help="Display the version.")

    def flag(self, name: str, help_: str) -> None:
        """An option without a value."""
        self.add_argument(name, action="store_true", help=help_)

    def option(self, name: str, metavar: str, help_: str, **settings: Any) -> None:
        """An option with a value."""
        self.add_argument(name, metavar=metavar, help=help_, **settings)

    def bootstrap(self, *, old: Sequence[str] = ("--broker-list", "--zookeeper")) -> None:
        """The option that names the cluster, and what it was called before."""
        self.option("--bootstrap-server", "HOST:PORT,…", "The brokers to connect to.")
        self.option("--command-config", "FILE", "Properties of the client.")
        for name in old:
            self.old(name, "--bootstrap-server")

    def old(self, name: str, new: str) -> None:
        """An option that has another name today."""
        self._replaced[name] = new

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The options that were given. Exits for --help, --version and what is wrong."""
        options = self.parse_args(self._modern(arguments))
        if options.help or not arguments:
            self.print_help(sys.stderr)
            sys.exit(1)
        if options.version:
            print(f"{KAFKA_VERSION} (Tidelog {__version__})")
            sys.exit(0)
        return options

    def require(self, options: argparse.Namespace, *names: str) -> None:
        """Exit unless these options have values."""
        for name in names:
            if getattr(options, name.replace("-", "_")) in (None, [], False):
                self.error(f'Missing required argument "[{name}]"')

    def error(self, message: str) -> NoReturn:
        print(message, file=sys.stderr)
        self.print_help(sys.stderr)
        sys.exit(1)

    def _modern(self, arguments: Sequence[str]) -> list[str]:
        """The arguments as they are spelled today, with one warning for all that were not."""
        spelled = []
        changed: dict[str, str] = {}
        rest = iter(arguments)
        for argument in rest:
            value: str | None
            name, equals, value = argument.partition("=")
            new = f"-{name}" if name[:1] == "-" != name[1:2] and f"-{name}" in self._known() else name
            new = self._replaced.get(new, new)
            if new != name:
                changed[name] = new
            if not equals and self._takes_value(new):
                # Whatever comes next is the value, also when it begins with a dash.
                value = next(rest, None)
                equals = "" if value is None else "="
            spelled.append(new + equals + (value or ""))
        if changed:
            warn("old spelling, " + ", ".join(f"{name} is {new} today" for name, new in changed.items()) + ".")
        return spelled

    def _takes_value(self, name: str) -> bool:
        action = self._option_string_actions.get(name)
        return action is not None and action.nargs is None

    def _known(self) -> set[str]:
        return self._option_string_actions.keys() | self._replaced.keys()


def properties_of(pairs: Sequence[str] | None, file: str | None = None) -> dict[str, str]:
    """Properties from a file and from `key=value` options, which come last."""
    properties: dict[str, str] = {}
    if file is not None:
        properties |= read_properties(Path(file).read_text(encoding="latin-1"))
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise BadInput(f"Invalid command line properties: {pair}")
        properties[key] = value
    return properties


def cluster_of(options: argparse.Namespace, properties: Mapping[str, str] | None = None) -> Cluster:
    """The cluster that the options name, with the client's properties from --command-config."""
    from tidelog.client.cluster import REQUEST_TIMEOUT_S, TIMEOUT_S, Cluster
    from tidelog.client.security import security_in

    settings = dict(properties_of(None, options.command_config) if properties is None else properties)
    bootstrap = options.bootstrap_server or settings.get("bootstrap.servers", "")
    return Cluster(
        bootstrap,
        client_id=settings.get("client.id", "tidelog-kafka-tools"),
        request_timeout_s=_seconds(settings, "request.timeout.ms", REQUEST_TIMEOUT_S),
        timeout_s=_seconds(settings, "default.api.timeout.ms", TIMEOUT_S),
        bootstrap_patience_s=BOOTSTRAP_PATIENCE_S,
        security=security_in(settings),
    )


def _seconds(settings: Mapping[str, str], name: str, default: float) -> float:
    text = settings.get(name)
    if text is None:
        return default
    try:
        return int(text) / MILLISECONDS
    except ValueError:
        raise BadInput(f"Invalid value {text} for configuration {name}: Not a number of type INT") from None
