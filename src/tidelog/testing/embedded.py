"""A real broker inside a Python program: `with tidelog.Broker() as broker: ...`.

It runs in a thread of its own with its own event loop. A thread rather than a process: it starts in a fraction of the
time, leaves no orphan behind when the program dies, and can be stepped through with the program's own debugger.
Clients reach it over TCP like any other broker.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Final

from tidelog.broker.assembly import BrokerNode
from tidelog.model.durability import PAGE_CACHE, durability_properties

START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 60.0
# A developer's disk may be nearly full and is still good for a test: only what the broker itself needs is kept free.
FREE_BYTES_MIN: Final = 64 * 1024 * 1024


class Broker:
    """One broker on a free port of 127.0.0.1, with temporary data unless told otherwise.

    `config` takes Kafka's own property names: `Broker(config={"num.partitions": 3})`. With `durability="fsync"` nothing
    is acknowledged before it is on the disk.
    """

    def __init__(
        self,
        *,
        data: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        metrics_port: int | None = None,
        durability: str = PAGE_CACHE,
        config: Mapping[str, object] | None = None,
    ) -> None:
        self._data = None if data is None else Path(data)
        self._temporary: Path | None = None
        self._host = host
        self._port = port
        self._metrics_port = metrics_port
        given = {name: _as_property(value) for name, value in (config or {}).items()}
        self._config = {**durability_properties(durability), **given}
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node: BrokerNode | None = None
        self._stopping = asyncio.Event()

    @property
    def bootstrap_servers(self) -> str:
        """What to give a client, as "host:port"."""
        return f"{self._host}:{self.port}"

    @property
    def port(self) -> int:
        return self._running().port

    @property
    def metrics_url(self) -> str | None:
        return self._running().metrics_url

    @property
    def data(self) -> Path:
        """The folder that holds the logs."""
        folder = self._data or self._temporary
        if folder is None:
            raise RuntimeError("the broker is not running")
        return folder

    def start(self) -> Broker:
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        if self._data is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="tidelog-"))
        started: Future[BrokerNode] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="tidelog-broker", daemon=True)
        self._thread.start()
        try:
            self._node = started.result(START_SECONDS_MAX)
        except BaseException:
            self._thread.join(STOP_SECONDS_MAX)
            self._thread = None
            self._remove_temporary()
            raise
        # A later start finds its clients where they were.
        self._port = self._node.port
        return self

    def stop(self) -> None:
        """Stop cleanly. Data that is not temporary can be opened again."""
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        loop.call_soon_threadsafe(self._stopping.set)
        thread.join(STOP_SECONDS_MAX)
        if thread.is_alive():
            raise TimeoutError(f"the broker did not stop within {STOP_SECONDS_MAX:.0f} s")
        self._thread = self._loop = self._node = None
        self._remove_temporary()

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _properties(self) -> dict[str, str]:
        properties = {
            "log.dirs": str(self.data),
            "listeners": f"PLAINTEXT://{self._host}:{self._port}",
            "tidelog.disk.free.min.percent": "0",
            "tidelog.disk.free.min.bytes": str(FREE_BYTES_MIN),
            **self._config,
        }
        if self._metrics_port is not None:
            properties["tidelog.metrics.port"] = str(self._metrics_port)
        return properties

    def _run(self, started: Future[BrokerNode]) -> None:
        try:
            asyncio.run(self._serve(started))
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            else:
                raise

    async def _serve(self, started: Future[BrokerNode]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        node = BrokerNode(self._properties(), self._loop)
        try:
            node.start()
            node.when_ready(lambda: started.set_result(node))
            await self._stopping.wait()
            await node.leave()
        finally:
            node.stop()

    def _running(self) -> BrokerNode:
        if self._node is None:
            raise RuntimeError("the broker is not running")
        return self._node

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None


def _as_property(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
