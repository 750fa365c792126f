"""`tidelog log-dirs`: what brokers keep on disk."""

from __future__ import annotations

import click

from tidelog.cli.options import bootstrap_option, connect, format_option
from tidelog.cli.output import say, show_bytes, write_json, write_table


@click.command("log-dirs")
@click.option("-t", "--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@bootstrap_option
@format_option
def log_dirs(topics: tuple[str, ...], bootstrap: str, format_: str) -> int:
    """What brokers keep on disk."""
    from tidelog.client.admin import Admin

    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        described = {node.id: admin.describe_log_dirs(node.id) for node in admin.describe_cluster().brokers}
    rows = [
        (node, directory, replica)
        for node, directories in described.items()
        for directory in directories
        for replica in sorted(directory.replicas, key=lambda replica: replica.partition)
        if not topics or replica.partition.topic in topics
    ]
    if format_ == "json":
        write_json(
            [
                {
                    "broker": node,
                    "directory": directory.path,
                    "topic": replica.partition.topic,
                    "partition": replica.partition.partition,
                    "size_bytes": replica.size_bytes,
                    "offset_lag": replica.offset_lag,
                }
                for node, directory, replica in rows
            ]
        )
    else:
        write_table(
            ["broker", "directory", "partition", "size"],
            [
                (node, directory.path, replica.partition, show_bytes(replica.size_bytes))
                for node, directory, replica in rows
            ],
        )
    failed = [(node, found) for node, directories in described.items() for found in directories if found.error]
    for node, found in failed:
        say(f"Error: {found.path} of broker {node} is offline: {found.error.name}.")
    return int(bool(failed))
