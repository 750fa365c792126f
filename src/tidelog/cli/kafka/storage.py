"""kafka-storage: make ids, format log directories, say what is in them.

A broker formats an empty directory by itself at start-up; formatting beforehand fixes the cluster's id, and its first
voters where they are not a setting.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn
from uuid import uuid4

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.feature_levels import level_of, release_of
from tidelog.cli.kafka.initial_voters import check_voters, directory_of, voters_of, write_voters
from tidelog.env.files import RealFiles
from tidelog.log.checkpoints import DirectoryOwner, decode_uuid, encode_uuid, read_owner, write_owner
from tidelog.log.errors import CorruptLog
from tidelog.model.ids import NodeId
from tidelog.model.metadata_versions import METADATA_VERSION, METADATA_VERSION_NAMES, levels_of_release
from tidelog.model.properties import read_properties

DEFAULT_LOG_DIR: Final = "/tmp/kafka-logs"
DEFAULT_NODE_ID: Final = "1"
NEWEST: Final = max(METADATA_VERSION_NAMES)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"kafka-storage: error: {message}", file=sys.stderr)
        sys.exit(1)


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    options = _read(arguments)
    if options.command == "random-uuid":
        print(_random_uuid())
        return 0
    properties = read_properties(Path(options.config).read_text(encoding="latin-1"))
    directories = _directories(properties)
    return _info(directories) if options.command == "info" else _format(directories, properties, options)


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="kafka-storage", description="Prepares the directories of a broker.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="info|format|random-uuid")
    commands.add_parser("random-uuid", help="Print an id for a new cluster.")
    info = commands.add_parser("info", help="Show whose the directories are.")
    format_ = commands.add_parser("format", help="Make the directories a cluster's own.")
    for command in (info, format_):
        command.add_argument("--config", "-c", required=True, help="The server.properties file.")
    format_.add_argument("--cluster-id", "-t", required=True, help="The id of the cluster.")
    format_.add_argument("--ignore-formatted", "-g", action="store_true", help="Leave formatted directories alone.")
    voters = format_.add_mutually_exclusive_group()
    voters.add_argument("--standalone", "-s", action="store_true", help="A quorum of this node alone, to grow.")
    voters.add_argument("--no-initial-controllers", "-N", action="store_true", help="The quorum is there already.")
    voters.add_argument("--initial-controllers", "-I", help="The first voters, as id@host:port:directory,…")
    format_.add_argument("--release-version", "-r", help="The release whose levels the cluster begins with.")
    format_.add_argument("--feature", "-f", action="append", default=[], help="The level of a feature, as name=level.")
    return parser.parse_args(arguments)


def _random_uuid() -> str:
    """As Kafka makes them: never beginning with a dash, which would look like an option."""
    while (text := encode_uuid(uuid4())).startswith("-"):
        pass
    return text


def _directories(properties: dict[str, str]) -> list[Path]:
    text = properties.get("log.dirs") or properties.get("log.dir") or DEFAULT_LOG_DIR
    return [Path(part.strip()) for part in text.split(",") if part.strip()]


def _info(directories: list[Path]) -> int:
    found = [directory for directory in directories if directory.is_dir()]
    problems = [f"{directory} does not exist" for directory in directories if not directory.is_dir()]
    owners = []
    for directory in found:
        owner = _owner(directory)
        if owner is None:
            problems.append(f"{directory} is not formatted.")
        else:
            owners.append(owner)
    if found:
        _section("Found log director" + ("y:" if len(found) == 1 else "ies:"), found)
    for owner in owners[:1]:
        print(
            f"Found metadata: {{cluster.id={owner.cluster_id}, directory.id={encode_uuid(owner.directory_id)}, "
            f"node.id={owner.node_id}, version=1}}\n"
        )
    if problems:
        _section("Found problem" + (":" if len(problems) == 1 else "s:"), problems)
    return int(bool(problems))


def _section(title: str, lines: Sequence[object]) -> None:
    print(title)
    for line in lines:
        print(f"  {line}")
    print()


def _format(directories: list[Path], properties: dict[str, str], options: argparse.Namespace) -> int:
    node_id = NodeId(int(properties.get("node.id", properties.get("broker.id", DEFAULT_NODE_ID))))
    try:
        decode_uuid(options.cluster_id)
    except ValueError:
        raise BadInput(f"Cluster ID string {options.cluster_id} does not appear to be a valid UUID") from None
    check_voters(options, properties)
    _check_levels(options)
    files = RealFiles()
    new = []
    for directory in directories:
        owner = _owner(directory)
        if owner is None:
            new.append(directory)
        elif owner.cluster_id != options.cluster_id:
            raise BadInput(
                f"Invalid cluster.id in: {directory}/meta.properties. "
                f"Expected {options.cluster_id}, but read {owner.cluster_id}"
            )
        elif not options.ignore_formatted:
            raise BadInput(
                f"Log directory {directory} is already formatted. "
                "Use --ignore-formatted to ignore this directory and format the others."
            )
    if not new:
        print("All of the log directories are already formatted.")
    for directory in new:
        directory.mkdir(parents=True, exist_ok=True)
        kind = "metadata directory" if directory == directories[0] else "data directory"
        directory_id = uuid4()
        if directory == directories[0]:
            directory_id = directory_of(options, node_id) or directory_id
            voters = voters_of(options, properties, node_id, directory_id)
            if voters is not None:
                write_voters(directory, voters)
                kind = "dynamic metadata voter directory"
        write_owner(files, str(directory), DirectoryOwner(options.cluster_id, node_id, directory_id))
        print(f"Formatting {kind} {directory} with metadata.version {METADATA_VERSION_NAMES[NEWEST]}.")
    return 0


def _check_levels(options: argparse.Namespace) -> None:
    """A cluster begins with the newest levels; what asks for others is told how to get them, and not left in doubt."""
    asked = dict(map(level_of, options.feature))
    if options.release_version is not None:
        asked[METADATA_VERSION] = release_of(options.release_version)
    for name, level in asked.items():
        if level != levels_of_release(NEWEST).get(name):
            raise BadInput(
                f"A cluster begins with the levels of {METADATA_VERSION_NAMES[NEWEST]}, not with {name}={level}. "
                "kafka-features changes them once it runs."
            )


def _owner(directory: Path) -> DirectoryOwner | None:
    try:
        return read_owner(RealFiles(), str(directory))
    except CorruptLog as error:
        raise BadInput(str(error)) from None
