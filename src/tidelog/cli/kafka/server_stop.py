"""kafka-server-stop: stop the brokers that kafka-server-start started, and wait until they have."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.cli.kafka.arguments import KafkaParser
from tidelog.cli.server import stop_servers


def main(arguments: Sequence[str]) -> int:
    """Stop brokers; the exit code."""
    parser = KafkaParser("kafka-server-stop", "Stops brokers on this machine.")
    parser.option("--node-id", "ID", "Only the broker with this node.id.", type=int)
    parser.option("--process-role", "ROLE", "Only servers with this role: broker, controller or both.")
    # Called without arguments it stops everything, where other commands show their help.
    options = parser.read(arguments) if arguments else parser.parse_args([])
    return stop_servers(options.node_id)
