"""Three of our brokers as users run them: `tidelog server-start` with a file each, one cluster. For the benchmark."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from harness.server import Launch, ServerProcess, free_port
from harness.tidelog_server import START_SECONDS_MAX
from tidelog.model.local_cluster import NodePorts, local_cluster, show_properties


def tidelog_cluster_servers(
    folder: Path, brokers: int = 3, settings: Mapping[str, str] | None = None
) -> list[ServerProcess]:
    """Write the properties into folders and return the servers, not yet started. Start them together."""
    ports = [NodePorts(free_port(), free_port()) for _ in range(brokers)]
    folders = [folder / f"broker-{number}" for number in range(1, brokers + 1)]
    data = [str(one / "data") for one in folders]
    servers = []
    for node, own, properties in zip(ports, folders, local_cluster(ports, data=data, config=settings), strict=True):
        own.mkdir(parents=True, exist_ok=True)
        path = own / "server.properties"
        path.write_text(show_properties(properties))
        command = [str(Path(sys.executable).with_name("tidelog")), "server-start", str(path), "--log-level", "warning"]
        servers.append(ServerProcess(Launch("tidelog", command, START_SECONDS_MAX), own, node.client))
    return servers
