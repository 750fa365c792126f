"""Our broker as a user runs it: `tidelog server-start server.properties`, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.server import HOST, Launch, ServerProcess, free_port

# Patience, not a promise: a busy machine may let a process wait for seconds.
START_SECONDS_MAX: Final = 90.0


def tidelog_server(
    folder: Path, settings: Mapping[str, str] | None = None, *, port: int | None = None
) -> ServerProcess:
    """Write the properties into a folder and return the server, not yet started."""
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    properties = {
        "node.id": "1",
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": str(folder / "data"),
        "num.partitions": "1",
        **(settings or {}),
    }
    properties_path = folder / "server.properties"
    properties_path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    command = [str(Path(sys.executable).with_name("tidelog")), "server-start", str(properties_path)]
    return ServerProcess(Launch("tidelog", command, START_SECONDS_MAX), folder, port)
