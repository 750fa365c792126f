"""A broker as a process of its own: logs, signals, event loop. Called by the command line."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Final

from tidelog.broker.assembly import BrokerNode
from tidelog.broker.logs import log

# Requests leave no cycles behind, so the collector need not look at every few hundred objects that pass through.
GC_YOUNG_OBJECTS: Final = 50_000


def run_broker(
    properties: Mapping[str, str],
    on_ready: Callable[[BrokerNode], None] | None = None,
    *,
    log_level: str = "info",
    log_as_json: bool = False,
) -> int:
    """Run until SIGINT or SIGTERM; returns the exit code."""
    log.to_stderr(log_level, as_json=log_as_json)
    try:
        with asyncio.Runner(loop_factory=_event_loop_factory(properties)) as runner:
            return runner.run(_serve(properties, on_ready))
    except KeyboardInterrupt:
        return 0


async def _serve(properties: Mapping[str, str], on_ready: Callable[[BrokerNode], None] | None) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    node = BrokerNode(properties, loop)
    try:
        node.start()
    except (OSError, ValueError) as error:
        log.error("the broker cannot start", reason=str(error))
        node.stop()
        return 1
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNG_OBJECTS, 20, 100)
    if on_ready is not None:
        on_ready(node)
    await stopping.wait()
    log.info("stopping")
    node.stop()
    log.info("stopped")
    return 0


def _event_loop_factory(properties: Mapping[str, str]) -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop when it is installed and not refused; the standard loop serves as well."""
    if properties.get("tidelog.event.loop", "auto") == "standard" or sys.platform == "win32":
        return asyncio.new_event_loop
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
