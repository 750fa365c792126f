"""An event loop in a thread of its own, in which the machines of a blocking client run.

So heartbeats, retries and lingering batches go on whatever the program does meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

STOP_S: Final = 5.0

T = TypeVar("T")


class LoopThread:
    """A thread that runs a loop until it is stopped."""

    def __init__(self, name: str) -> None:
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Let the loop do something and wait for its end. A time-out, or Ctrl-C, cancels it."""
        assert threading.current_thread() is not self._thread, "a callback must not wait for its own loop"
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], None]) -> None:
        """Let the loop call something soon."""
        self.loop.call_soon_threadsafe(function)

    @property
    def is_current(self) -> bool:
        """Whether this is called from inside the loop, as delivery callbacks are."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the loop and its thread."""
        if self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.is_current:
            self._thread.join(STOP_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        finally:
            self.loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed: it sends large requests without copying what the socket does not take at once."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
