"""The tree of `tidelog` commands, each imported when it is called; the one place where failures become exit codes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from tidelog.cli.failures import explain
from tidelog.model.version import __version__

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
# As shells count a process that Ctrl-C ended.
INTERRUPTED: Final = 130

# Command -> (module in tidelog.cli, its attribute, the line in `tidelog --help`).
COMMANDS: Final = {
    "up": ("server", "up", "Start a broker here and now."),
    "demo": ("demo", "demo", "Watch orders flow through a broker and Spark."),
    "topics": ("topics", "topics", "Create, list, describe, alter and delete topics."),
    "produce": ("produce", "produce", "Write lines to a topic."),
    "consume": ("consume", "consume", "Read records of a topic."),
    "groups": ("groups", "groups", "Describe and delete consumer groups, reset their offsets."),
    "transactions": ("transactions", "transactions", "List, describe and abort transactions."),
    "offsets": ("offsets", "offsets", "Where the partitions of a topic begin and end."),
    "configs": ("configs", "configs", "Describe and alter settings of topics and brokers."),
    "delete-records": ("delete_records", "delete_records", "Delete records before an offset."),
    "cluster": ("cluster", "cluster", "Brokers, the quorum, leaders and replicas of a cluster."),
    "watch": ("watch", "watch", "Watch a cluster: leaders, replicas, offsets, live."),
    "perf": ("perf.commands", "perf", "Measure how fast a cluster is."),
    "sql": ("sql", "sql", "Ask topics with SQL, by DuckDB or Spark."),
    "pipeline": ("pipeline", "pipeline", "Run data pipelines on Spark; list, watch and stop them."),
    "log-dirs": ("log_dirs", "log_dirs", "What brokers keep on disk."),
    "log": ("log", "log", "Look into log files, verify, recover, restore."),
    "dump": ("dump", "dump", "Look into log files and generated codecs."),
    "server-start": ("server", "server_start", "Start a broker with a server.properties file."),
    "server-stop": ("server", "server_stop", "Stop brokers that server-start started."),
}


class ReaderGone(Exception):
    """Whoever read our output, such as `head`, has enough."""


class LazyCommands(click.Group):
    """Knows the commands by name and imports one when it is wanted."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Click would end with 1, as if something had failed.
            raise ReaderGone from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = COMMANDS.get(cmd_name)
        if found is None:
            return None
        module, attribute, _ = found
        command = getattr(import_module(f"tidelog.cli.{module}"), attribute)
        assert isinstance(command, click.Command), command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])
        with formatter.section("Kafka's own commands"):
            formatter.write_text("tidelog kafka-topics, tidelog kafka-console-producer, … take Kafka's flags.")


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Begin with: tidelog up",
)
@click.version_option(__version__, "--version", prog_name="tidelog")
def tidelog() -> None:
    """A Kafka-compatible streaming platform without a JVM."""


def run(arguments: Sequence[str]) -> int:
    """Run a command; the exit code."""
    try:
        code = tidelog.main(list(arguments), prog_name="tidelog", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        # There is nobody to tell. Python would try at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        click.echo(f"Error: {sentence}", err=True)
        return FAILED
