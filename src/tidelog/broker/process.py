"""A broker as a process of its own: logs, signals, event loop. Called by the command line."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Final

from tidelog.broker.assembly import BrokerNode
from tidelog.broker.logs import log
from tidelog.log.directories import DirectoryInUse, WrongOwner
from tidelog.log.errors import CorruptLog, LogFailed
from tidelog.model.errors import ProtocolError

# Requests leave no cycles behind, so the collector need not look at every few hundred objects that pass through.
GC_YOUNG_OBJECTS: Final = 50_000
# What people can mend: a setting, a port that is taken, a folder that is another's, a disk.
CANNOT_START: Final = (OSError, ProtocolError, DirectoryInUse, WrongOwner, CorruptLog, LogFailed)


def run_broker(
    properties: Mapping[str, str],
    on_ready: Callable[[BrokerNode], None] | None = None,
    *,
    log_level: str = "info",
    log_as_json: bool = False,
) -> int:
    """Run until SIGINT or SIGTERM; returns the exit code."""
    log.to_stderr(log_level, as_json=log_as_json)
    _allow_many_connections()
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
    node: BrokerNode | None = None
    try:
        node = BrokerNode(properties, loop)
        node.start()
    except CANNOT_START as error:
        log.error("the broker cannot start", reason=str(error))
        if node is not None:
            node.stop()
        return 1
    for name in node.config.unknown_keys:
        log.warning("unknown setting", name=name)
    for name in node.config.idle_keys:
        log.warning("this setting is accepted and has no effect", name=name)
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNG_OBJECTS, 20, 100)
    if on_ready is not None:
        started, tell = node, on_ready
        node.when_ready(lambda: tell(started))
    failures: list[bool] = []
    node.when_failed(lambda: failures.append(True))
    node.when_failed(stopping.set)
    await stopping.wait()
    log.info("stopping")
    if not failures:
        await node.leave()
    node.stop()
    log.info("stopped")
    return int(bool(failures))


def _allow_many_connections() -> None:
    """Take all file descriptors that the system lets this process have: every connection is one."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _event_loop_factory(properties: Mapping[str, str]) -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop when it is installed and not refused; the standard loop serves as well."""
    if properties.get("tidelog.event.loop", "auto") == "standard" or sys.platform == "win32":
        return asyncio.new_event_loop
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
