"""kafka-metadata-quorum: who leads the metadata quorum, how far each replica is; add and remove controllers."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn
from uuid import UUID

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.arguments import cluster_of
from tidelog.model.ids import ZERO_UUID, NodeId
from tidelog.model.properties import read_properties

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster
    from tidelog.client.core.bootstrap import Address
    from tidelog.client.quorum import Quorum, QuorumReplica

HEADINGS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)
NO_CONTROLLER_FILE: Final = "Is this a valid controller configuration file?"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"kafka-metadata-quorum: error: {message}", file=sys.stderr)
        sys.exit(1)


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    options = _read(arguments)
    _check(options)
    options.bootstrap_server = options.bootstrap_server or options.bootstrap_controller
    with cluster_of(options) as cluster:
        if options.command == "add-controller":
            _add(cluster, options)
        elif options.command == "remove-controller":
            _remove(cluster, options)
        elif options.status:
            _status(cluster)
        else:
            _replication(cluster, human=options.human_readable)
    return 0


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="kafka-metadata-quorum", description="Describes the metadata quorum.")
    address = parser.add_mutually_exclusive_group(required=True)
    address.add_argument("--bootstrap-server", help="Brokers of the cluster.")
    address.add_argument("--bootstrap-controller", help="Controllers of the cluster.")
    parser.add_argument("--command-config", help="Properties of the client, or of the controller to add.")
    commands = parser.add_subparsers(dest="command", required=True)
    describe = commands.add_parser("describe", help="Describe the quorum.")
    describe.add_argument("--status", action="store_true", help="A short summary.")
    describe.add_argument("--replication", action="store_true", help="How far each replica is.")
    describe.add_argument("--human-readable", action="store_true", help="Times as how long ago.")
    add = commands.add_parser("add-controller", help="Let a controller vote.")
    remove = commands.add_parser("remove-controller", help="Let a controller vote no more.")
    remove.add_argument("--controller-id", "-i", type=int, required=True, help="Its id.")
    remove.add_argument("--controller-directory-id", "-d", required=True, help="The id of its directory.")
    for command in (add, remove):
        command.add_argument("--dry-run", action="store_true", help="Only say what would be done.")
    return parser.parse_args(arguments)


def _check(options: argparse.Namespace) -> None:
    if options.command != "describe":
        return
    if options.status and options.replication:
        raise BadInput("Only one of --status or --replication should be specified with describe sub-command")
    if not options.status and not options.replication:
        raise BadInput("One of --status or --replication must be specified with describe sub-command")
    if options.status and options.human_readable:
        raise BadInput("The option --human-readable is only supported along with --replication")


def _status(cluster: Cluster) -> None:
    from tidelog.client.admin import Admin
    from tidelog.client.quorum import NEVER, describe_quorum

    cluster_id = Admin(cluster).describe_cluster().cluster_id
    quorum = describe_quorum(cluster)
    leader = _leader(quorum)
    slowest = min(quorum.voters, key=lambda one: one.end_offset)
    lag_ms = 0
    if slowest is not leader:
        known = NEVER not in (leader.last_caught_up_ms, slowest.last_caught_up_ms)
        lag_ms = leader.last_caught_up_ms - slowest.last_caught_up_ms if known else -1
    for name, value in {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader,
        "LeaderEpoch": quorum.epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": leader.end_offset - slowest.end_offset,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _replicas(quorum, quorum.voters),
        "CurrentObservers": _replicas(quorum, quorum.observers),
    }.items():
        print(f"{name + ':':24}{value}")


def _replicas(quorum: Quorum, replicas: Sequence[QuorumReplica]) -> str:
    from tidelog.log.checkpoints import encode_uuid

    shown = []
    for one in replicas:
        parts = [f'"id": {one.node_id}']
        if one.directory_id != ZERO_UUID:
            parts.append(f'"directoryId": "{encode_uuid(one.directory_id)}"')
        addresses = quorum.addresses.get(one.node_id, ())
        if addresses:
            listed = ", ".join(f'"{_endpoint(name, host, port)}"' for name, host, port in addresses)
            parts.append(f'"endpoints": [{listed}]')
        shown.append("{" + ", ".join(parts) + "}")
    return f"[{', '.join(shown)}]"


def _replication(cluster: Cluster, *, human: bool) -> None:
    from tidelog.client.quorum import describe_quorum
    from tidelog.log.checkpoints import encode_uuid

    quorum = describe_quorum(cluster)
    leader = _leader(quorum)
    kinds = [("Leader", [leader]), ("Follower", [one for one in quorum.voters if one is not leader])]
    rows: list[tuple[str, ...]] = [HEADINGS]
    for status, replicas in [*kinds, ("Observer", list(quorum.observers))]:
        for one in replicas:
            rows.append(
                (
                    str(one.node_id),
                    encode_uuid(one.directory_id),
                    str(one.end_offset),
                    str(leader.end_offset - one.end_offset),
                    _moment(one.last_fetch_ms, human),
                    _moment(one.last_caught_up_ms, human),
                    status,
                )
            )
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))


def _moment(timestamp_ms: int, human: bool) -> str:
    if timestamp_ms < 0 or not human:
        return str(timestamp_ms)
    return f"{max(int(time.time() * 1000) - timestamp_ms, 0)} ms ago"


def _leader(quorum: Quorum) -> QuorumReplica:
    for one in quorum.voters:
        if one.node_id == quorum.leader:
            return one
    raise BadInput("The metadata quorum has no leader at the moment.")


def _add(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.client.quorum import add_voter
    from tidelog.env.files import RealFiles
    from tidelog.log.checkpoints import encode_uuid, read_owner

    if options.command_config is None:
        raise BadInput(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    properties = read_properties(Path(options.command_config).read_text(encoding="latin-1"))
    node = _controller_id(properties)
    directory = _metadata_directory(properties)
    owner = read_owner(RealFiles(), directory)
    if owner is None:
        raise BadInput(f"Unable to read meta.properties from {directory}")
    listeners = controller_listeners(properties)
    if not options.dry_run:
        add_voter(cluster, owner.cluster_id, node, owner.directory_id, listeners)
    shown = ", ".join(_endpoint(name, host, port) for name, (host, port) in listeners.items())
    did = "DRY RUN of adding" if options.dry_run else "Added"
    print(f"{did} controller {node} with directory id {encode_uuid(owner.directory_id)} and endpoints: {shown}")


def _controller_id(properties: dict[str, str]) -> NodeId:
    if "node.id" not in properties:
        raise BadInput(f"node.id not found in configuration file. {NO_CONTROLLER_FILE}")
    if int(properties["node.id"]) < 0:
        raise BadInput(f"node.id was negative in configuration file. {NO_CONTROLLER_FILE}")
    if "controller" not in properties.get("process.roles", ""):
        raise BadInput(f"process.roles did not contain 'controller' in configuration file. {NO_CONTROLLER_FILE}")
    return NodeId(int(properties["node.id"]))


def _metadata_directory(properties: dict[str, str]) -> str:
    found = properties.get("metadata.log.dir") or properties.get("log.dirs", "").split(",")[0].strip()
    if not found:
        raise BadInput(f"Neither metadata.log.dir nor log.dirs were found. {NO_CONTROLLER_FILE}")
    return found


def controller_listeners(properties: dict[str, str]) -> dict[str, Address]:
    """Where a controller listens, as its file says, by the name of the listener."""
    from tidelog.model.listeners import parse_address

    known: dict[str, Address] = {}
    for setting in ("listeners", "advertised.listeners"):
        for text in filter(None, (part.strip() for part in properties.get(setting, "").split(","))):
            name, _, address = text.partition("://")
            known[name.upper()] = parse_address(setting, address)
    names = properties.get("controller.listener.names")
    if names is None:
        raise BadInput(f"controller.listener.names was not found. {NO_CONTROLLER_FILE}")
    found: dict[str, Address] = {}
    for name in (part.strip().upper() for part in names.split(",")):
        if name not in known:
            raise BadInput(f"Cannot find information about controller listener name: {name}")
        host, port = known[name]
        found[name] = (host or "localhost", port)
    return found


def _remove(cluster: Cluster, options: argparse.Namespace) -> None:
    from tidelog.client.quorum import remove_voter
    from tidelog.log.checkpoints import decode_uuid, encode_uuid

    if options.controller_id < 0:
        raise BadInput(f"Invalid negative --controller-id: {options.controller_id}")
    try:
        directory: UUID = decode_uuid(options.controller_directory_id)
    except ValueError as error:
        raise BadInput(f"Failed to parse --controller-directory-id: {error}") from None
    if not options.dry_run:
        remove_voter(cluster, None, NodeId(options.controller_id), directory)
    # Kafka's own has two blanks here, too.
    did = "DRY RUN of removing " if options.dry_run else "Removed "
    print(f"{did} KRaft controller {options.controller_id} with directory id {encode_uuid(directory)}")


def _endpoint(name: str, host: str, port: int) -> str:
    return f"{name}://[{host}]:{port}" if ":" in host else f"{name}://{host}:{port}"
