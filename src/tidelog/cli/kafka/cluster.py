"""kafka-cluster: the cluster's id, its brokers, and how to forget one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from tidelog.cli.kafka.arguments import cluster_of
from tidelog.model.ids import NodeId

if TYPE_CHECKING:
    from tidelog.client.admin import Admin

COLUMNS: Final = ("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")
COLUMN_WIDTH: Final = 10
LAST_COLUMN_WIDTH: Final = 15


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"kafka-cluster: error: {message}", file=sys.stderr)
        sys.exit(1)


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    from tidelog.client.admin import Admin

    options = _read(arguments)
    with cluster_of(options) as cluster:
        admin = Admin(cluster)
        if options.command == "unregister":
            _unregister(admin, NodeId(options.id))
            return 0
        description = admin.describe_cluster()
    if options.command == "cluster-id":
        print(f"Cluster ID: {description.cluster_id}")
        return 0
    # Kafka makes the host's column as wide as the longest host.
    host_width = max(len(node.host) for node in description.brokers)
    widths = (COLUMN_WIDTH, host_width, COLUMN_WIDTH, COLUMN_WIDTH, COLUMN_WIDTH, LAST_COLUMN_WIDTH)
    rows: list[tuple[object, ...]] = [COLUMNS]
    for node in description.brokers:
        state = "fenced" if node.id in description.fenced else "unfenced"
        rows.append((node.id, node.host, node.port, node.rack or "null", state, "broker"))
    for row in rows:
        print(" ".join(str(cell).ljust(size) for cell, size in zip(row, widths, strict=True)))
    return 0


def _unregister(admin: Admin, node_id: NodeId) -> None:
    from tidelog.client.errors import UnsupportedByBroker

    try:
        admin.unregister_broker(node_id)
        print(f"Broker {node_id} is no longer registered.")
    except UnsupportedByBroker:
        print("The target cluster does not support the broker unregistration API.")


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="kafka-cluster", description="Asks about a cluster.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="cluster-id|unregister|list-endpoints")
    for name, help_ in {
        "cluster-id": "Show the id of the cluster.",
        "unregister": "Forget a broker that will not come back.",
        "list-endpoints": "Show the brokers.",
    }.items():
        command = commands.add_parser(name, help=help_)
        command.add_argument("--bootstrap-server", "-b", required=True, help="Brokers of the cluster.")
        command.add_argument("--command-config", "--config", "-c", help="Properties of the client.")
        if name == "unregister":
            command.add_argument("--id", "-i", type=int, required=True, help="The id of the broker.")
        if name == "list-endpoints":
            command.add_argument("--include-fenced-brokers", action="store_true", help="Show fenced ones, too.")
    return parser.parse_args(arguments)
