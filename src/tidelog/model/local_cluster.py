"""The settings of several brokers on one machine that are one cluster, each of them broker and controller.

Used by `tidelog up --brokers` and by `testing/cluster.py`. What a user sets has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

REPLICATION_FACTOR_MAX: Final = 3
# With this many replicas one may be gone and writes with acks=all go on, and none that was acknowledged is lost.
REPLICAS_FOR_TWO_IN_SYNC: Final = 3
ASCII_END: Final = 0x7F
CLIENT_LISTENER: Final = "PLAINTEXT"
BROKER_LISTENER: Final = "INTERNAL"
CONTROLLER_LISTENER: Final = "CONTROLLER"


@dataclass(frozen=True, slots=True)
class NodePorts:
    """Where one node listens. `reached_*`: where others find it, when something stands between."""

    client: int
    controller: int
    # Brokers among themselves; they use the clients' port when there is none.
    internal: int | None = None
    reached_client: int | None = None
    reached_internal: int | None = None
    reached_controller: int | None = None


def local_cluster(
    ports: Sequence[NodePorts], *, data: Sequence[str], host: str = "127.0.0.1", config: Mapping[str, str] | None = None
) -> list[dict[str, str]]:
    """The properties of each node; their numbers begin with 1."""
    voters = ",".join(
        f"{number}@{host}:{node.reached_controller or node.controller}" for number, node in enumerate(ports, 1)
    )
    replicas = min(len(ports), REPLICATION_FACTOR_MAX)
    in_sync = 2 if replicas >= REPLICAS_FOR_TWO_IN_SYNC else 1
    shared = {
        "process.roles": "broker,controller",
        "controller.listener.names": CONTROLLER_LISTENER,
        "controller.quorum.voters": voters,
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in (CLIENT_LISTENER, BROKER_LISTENER, CONTROLLER_LISTENER)
        ),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
    }
    return [
        {**shared, "node.id": str(number), "log.dirs": folder, **_listeners(node, host), **(config or {})}
        for number, (node, folder) in enumerate(zip(ports, data, strict=True), 1)
    ]


def _listeners(node: NodePorts, host: str) -> dict[str, str]:
    bound = {CLIENT_LISTENER: node.client, BROKER_LISTENER: node.internal, CONTROLLER_LISTENER: node.controller}
    # The way to a controller is what `controller.quorum.voters` says.
    reached = {CLIENT_LISTENER: node.reached_client or node.client, BROKER_LISTENER: node.reached_internal}
    return {
        "listeners": _addresses(bound, host),
        "advertised.listeners": _addresses(reached, host),
        "inter.broker.listener.name": CLIENT_LISTENER if node.internal is None else BROKER_LISTENER,
    }


def _addresses(ports: Mapping[str, int | None], host: str) -> str:
    return ",".join(f"{name}://{host}:{port}" for name, port in ports.items() if port is not None)


def show_properties(properties: Mapping[str, str]) -> str:
    """A properties file, in ASCII as Java reads it."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    letters = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(letter) if letter < ASCII_END else f"\\u{letter:04x}" for letter in letters)
