"""Cuts the logs of followers for `replica/fetcher.py`: first what takes long, in a thread, then the cut, in the loop.

Reading who the producers of a large segment were takes seconds, in which a broker must answer others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Protocol

from tidelog.broker.logs import log
from tidelog.log.cut_preparation import CutTask
from tidelog.log.directories import LogDirectories
from tidelog.log.errors import CorruptLog
from tidelog.log.producer_replay import KnownProducers
from tidelog.model.ids import Offset, TopicPartition

Known = dict[TopicPartition, KnownProducers]


class Loop(Protocol):
    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object: ...


class LogCutting:
    def __init__(self, directories: LogDirectories, executor: Executor, loop: Loop, now_ms: Callable[[], int]) -> None:
        self._directories = directories
        self._executor = executor
        self._loop = loop
        self._now_ms = now_ms

    def prepare(self, offsets: Mapping[TopicPartition, Offset], then: Callable[[Known, int], None]) -> None:
        """Find out what cuts at these offsets need to know; `then` gets it with the time, later, in the loop."""
        tasks = self._directories.cut_tasks(offsets)
        self._executor.submit(self._run, tasks, then)

    def truncate(
        self, offsets: Mapping[TopicPartition, Offset], known: Mapping[TopicPartition, KnownProducers]
    ) -> None:
        """Raises LogFailed."""
        self._directories.truncate(offsets, known)

    def start_over(self, partition: TopicPartition, offset: Offset) -> None:
        """Raises LogFailed."""
        self._directories.start_over(partition, offset)

    def _run(self, tasks: dict[TopicPartition, CutTask], then: Callable[[Known, int], None]) -> None:
        known: Known = {}
        for partition, task in tasks.items():
            try:
                known[partition] = task.run()
            except (OSError, CorruptLog) as error:
                # Deleted or compacted meanwhile; the cut itself sees what there is.
                log.debug("a cut could not be prepared", partition=str(partition), reason=str(error))
            except Exception:
                # A mistake of ours: said, and no reason never to fetch again what waits for this.
                log.exception("a cut could not be prepared", partition=str(partition))
        self._loop.call_soon_threadsafe(lambda: then(known, self._now_ms()))
