"""The first voters of a quorum whose voters are records, not a setting (KIP-853): what `kafka-storage format` is told
of them, and the snapshot in which a node finds them when it starts for the first time."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.metadata_quorum import controller_listeners
from tidelog.log.checkpoints import decode_uuid
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.model.listeners import parse_address

if TYPE_CHECKING:
    from tidelog.raft.replicas import VoterSet

METADATA_FOLDER: Final = "__cluster_metadata-0"
MUST_CHOOSE: Final = (
    "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
    "--standalone, --initial-controllers, or --no-initial-controllers."
)
MUST_NOT_CHOOSE: Final = (
    "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. If "
    "you want to use dynamic quorum, please remove controller.quorum.voters and specify "
    "controller.quorum.bootstrap.servers instead."
)


def check_voters(options: argparse.Namespace, properties: Mapping[str, str]) -> None:
    """Whether what is said of voters fits the settings."""
    if properties.get("controller.quorum.voters"):
        if options.standalone or options.initial_controllers:
            raise BadInput(MUST_NOT_CHOOSE)
        return
    is_controller = "controller" in properties.get("process.roles", "")
    chosen = options.standalone or options.initial_controllers or options.no_initial_controllers
    # Without either setting a node of ours is a quorum of its own, and needs to be told nothing.
    if is_controller and properties.get("controller.quorum.bootstrap.servers") and not chosen:
        raise BadInput(MUST_CHOOSE)


def voters_of(
    options: argparse.Namespace, properties: Mapping[str, str], node_id: NodeId, directory_id: UUID
) -> VoterSet | None:
    """The voters that the options name; None when they name none."""
    from tidelog.raft.replicas import Endpoint, ReplicaKey, Voter, VoterSet

    if options.initial_controllers:
        listener = properties.get("controller.listener.names", "").split(",")[0].strip().upper()
        return VoterSet(
            Voter(ReplicaKey(node, directory), (Endpoint(listener, host, port),))
            for node, host, port, directory in map(_parse, options.initial_controllers.split(","))
        )
    if not options.standalone or not properties.get("controller.quorum.bootstrap.servers"):
        return None
    listeners = controller_listeners(dict(properties))
    endpoints = tuple(Endpoint(name, host, port) for name, (host, port) in listeners.items())
    return VoterSet([Voter(ReplicaKey(node_id, directory_id), endpoints)])


def directory_of(options: argparse.Namespace, node_id: NodeId) -> UUID | None:
    """The directory id that --initial-controllers gives this node."""
    for text in filter(None, (options.initial_controllers or "").split(",")):
        node, _, _, directory = _parse(text)
        if node == node_id:
            return directory
    return None


def write_voters(directory: Path, voters: VoterSet) -> None:
    """Let a node that starts with this directory find its voters. Raises OSError."""
    from tidelog.broker.raft.snapshots import write_snapshot
    from tidelog.env.files import RealFiles
    from tidelog.metadata.image import ClusterImage
    from tidelog.raft.ports import SnapshotId

    folder = directory / METADATA_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    first = SnapshotId(Offset(0), LeaderEpoch(0))
    write_snapshot(RealFiles(), str(folder), first, ClusterImage(), voters, int(time.time() * 1000))


def _parse(text: str) -> tuple[NodeId, str, int, UUID]:
    """Read id@host:port:directory."""
    number, separator, rest = text.strip().partition("@")
    address, colon, directory = rest.rpartition(":")
    if not separator or not colon or not number.isdecimal():
        raise BadInput(f"{text} is no controller: write id@host:port:directory.")
    host, port = parse_address("--initial-controllers", address)
    try:
        return NodeId(int(number)), host, port, decode_uuid(directory)
    except ValueError:
        raise BadInput(f"{directory} is no directory id, in {text}.") from None
