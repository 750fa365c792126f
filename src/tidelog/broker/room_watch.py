"""Asks once a second, in a thread, how much room the log directories have; while it is too little their leaders refuse
what producers send, and while it is far too little their followers take nothing either.

Reads go on, and so do the records of coordinators and the metadata log: the room that is kept free is theirs. No
request asks the file system anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from tidelog.broker.logs import log
from tidelog.log.directories import LogDirectories
from tidelog.log.directory import LogDirectory
from tidelog.log.room import FOLLOWERS_SHARE, Room, RoomLimits
from tidelog.model.errors import ErrorCode
from tidelog.model.names import is_internal
from tidelog.replica.follower import PartitionFollower
from tidelog.replica.partitions import LedPartitions
from tidelog.replica.refusal import Refusal

LOOK_SECONDS: Final = 1.0
MEBIBYTE: Final = 1024 * 1024


class RoomWatch:
    def __init__(
        self,
        directories: LogDirectories,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        limits: RoomLimits,
        open_again: Callable[[], None],
    ) -> None:
        """`open_again` has the partitions made that there was no room for."""
        self._directories = directories
        self._loop = loop
        self._executor = executor
        self._limits = limits
        self._open_again = open_again
        self._timer: asyncio.TimerHandle | None = None
        self._partitions: LedPartitions | None = None
        self._stopped = False

    def start(self, partitions: LedPartitions) -> None:
        """Look once before the first request comes, then every second."""
        self._partitions = partitions
        self._judge(self._measure())

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._executor.submit(self._measure_in_thread)

    def _measure_in_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._judge, self._measure())

    def _measure(self) -> list[tuple[LogDirectory, Room]]:
        rooms = []
        for directory in self._directories.online():
            try:
                room = Room(directory.files.free_bytes(directory.path), directory.files.total_bytes(directory.path))
            except OSError:
                continue  # A disk that is gone shows itself where it is used.
            rooms.append((directory, room))
        return rooms

    def _judge(self, rooms: list[tuple[LogDirectory, Room]]) -> None:
        if self._stopped:
            return
        for directory, room in rooms:
            was_short = directory.is_short_of_room
            directory.is_short_of_room = self._limits.is_short(room, was_short=was_short)
            if directory.is_short_of_room:
                self._refuse(directory, room)
            if directory.is_short_of_room != was_short:
                self._changed(directory, room)
            self._judge_followers(directory, room)
        if self._partitions is not None and self._partitions.unopened:
            self._open_again()
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def _judge_followers(self, directory: LogDirectory, room: Room) -> None:
        """Have followers take no more records, or go on. What coordinators wrote elsewhere they take in any case."""
        was_short = directory.is_short_for_followers
        is_short = self._limits.is_short(room, was_short=was_short, share=FOLLOWERS_SHARE)
        directory.is_short_for_followers = is_short
        if not is_short and not was_short:
            return
        if is_short != was_short:
            says = "followers take no more records" if is_short else "followers take records again"
            log.error(f"room on a disk: {says}", directory=directory.path, free_bytes=room.free_bytes)
        for replica in () if self._partitions is None else self._partitions.replicas():
            if isinstance(replica, PartitionFollower) and replica.log.partition in directory.logs:
                replica.has_no_room = is_short and not is_internal(replica.topic)

    def _refuse(self, directory: LogDirectory, room: Room) -> None:
        refusal = Refusal(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The disk of {directory.path} is nearly full: {room.free_bytes // MEBIBYTE} MiB are free, "
            f"{self._limits.free_bytes_min(room.total_bytes) // MEBIBYTE} MiB must be.",
        )
        # Every time, for there may be new leaders.
        for leader in self._partitions or ():
            if leader.log.partition in directory.logs:
                leader.no_room = refusal

    def _changed(self, directory: LogDirectory, room: Room) -> None:
        fields = {"directory": directory.path, "free_bytes": room.free_bytes}
        if directory.is_short_of_room:
            log.error("a disk is nearly full; its partitions take no more records until there is room", **fields)
            return
        log.warning("there is room again; records are taken", **fields)
        for leader in self._partitions or ():
            if leader.log.partition in directory.logs:
                leader.no_room = None
