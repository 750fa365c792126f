"""The command `tidelog`: finds the subcommand, runs it, turns failures into a sentence and an exit code.

Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly. Commands live in modules that are imported when they are
called, so that the first letter appears quickly; `tidelog kafka-…` runs the commands that Kafka's users know.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tidelog.cli.kafka.names import KAFKA_COMMANDS


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line of this process, or another, and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0].removesuffix(".sh") in KAFKA_COMMANDS:
        from tidelog.cli.kafka.run import run_kafka_command

        sys.exit(run_kafka_command(given[0].removesuffix(".sh"), given[1:]))
    from tidelog.cli.commands import run

    sys.exit(run(given))
