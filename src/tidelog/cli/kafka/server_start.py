"""kafka-server-start: run a broker with a server.properties file, in this terminal or behind it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tidelog.cli.kafka.arguments import KAFKA_VERSION, properties_of
from tidelog.cli.server import start_server
from tidelog.model.version import __version__

USAGE: Final = "USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*"
# What Kafka's script takes for its JVM, with the number of values: nothing to do here.
FOR_THE_JVM: Final = {"-name": 1, "-loggc": 0}


def main(arguments: Sequence[str]) -> int:
    """Run the broker; the exit code."""
    daemon = False
    files: list[str] = []
    overrides: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument in ("-daemon", "--daemon"):
            daemon = True
        elif argument in FOR_THE_JVM:
            del rest[: FOR_THE_JVM[argument]]
        elif argument == "--override" and rest:
            overrides.append(rest.pop(0))
        elif argument.startswith("--override="):
            overrides.append(argument.partition("=")[2])
        elif argument == "--version":
            print(f"{KAFKA_VERSION} (Tidelog {__version__})")
            return 0
        elif argument.startswith("-"):
            return _usage("" if argument == "--help" else f"{argument.lstrip('-')} is not a recognized option")
        else:
            files.append(argument)
    if len(files) != 1:
        return _usage(f"Found non argument parameters: {','.join(files[1:])}" if files else "")
    if not Path(files[0]).is_file():
        print(f"{files[0]}: there is no such file.", file=sys.stderr)
        return 1
    return start_server(files[0], properties_of(overrides), daemon=daemon)


def _usage(problem: str) -> int:
    if problem:
        print(problem, file=sys.stderr)
    print(USAGE, file=sys.stderr)
    return 1
