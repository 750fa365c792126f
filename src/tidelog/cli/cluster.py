"""`tidelog cluster`: the brokers of a cluster."""

from __future__ import annotations

import sys

import click

from tidelog.cli.options import bootstrap_option, connect, format_option
from tidelog.cli.output import say, write_json, write_table


@click.command()
@bootstrap_option
@format_option
def cluster(bootstrap: str, format_: str) -> None:
    """The brokers of a cluster."""
    from tidelog.client.admin import Admin

    with connect(bootstrap) as connected:
        description = Admin(connected).describe_cluster()
    if format_ == "json":
        write_json(
            {
                "cluster_id": description.cluster_id,
                "controller": description.controller,
                "brokers": [
                    {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
                    for node in description.brokers
                ],
            }
        )
        return
    if sys.stdout.isatty():
        say(f"Cluster {description.cluster_id}")
    write_table(
        ["broker", "address", "rack", "controller"],
        [
            (node.id, str(node), node.rack or "-", "yes" if node.id == description.controller else "")
            for node in description.brokers
        ],
    )
