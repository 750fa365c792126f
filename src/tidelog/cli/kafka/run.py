"""Runs one of the `kafka-*` commands and turns failures into the exit codes of Kafka's own: 0 it worked, 1 not."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from tidelog.cli.failures import explain
from tidelog.cli.kafka.names import KAFKA_COMMANDS

INTERRUPTED = 130


def main() -> None:
    """Run the command that this process was started as; the entry point of `kafka-topics.sh` and its like."""
    sys.exit(run_kafka_command(Path(sys.argv[0]).name.removesuffix(".exe").removesuffix(".sh"), sys.argv[1:]))


def run_kafka_command(name: str, arguments: Sequence[str]) -> int:
    """Run a command by its name without `.sh`; the exit code."""
    module = import_module(f"tidelog.cli.kafka.{KAFKA_COMMANDS[name]}")
    try:
        code: int = module.main(list(arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        print(sentence, file=sys.stderr)
        return 1
