"""What a producer does when its buffer is full: the choices, by the names that the setting `buffer_full` takes."""

from __future__ import annotations

from enum import StrEnum


class BufferFullPolicy(StrEnum):
    """BLOCK waits for room, at most `max_block_ms`. The others never wait.

    RAISE refuses the record. DROP_NEWEST lets the new record go, DROP_OLDEST the batches that have waited longest,
    CLEAR all that are not on their way yet. What is dropped fails with `RecordDropped`, callbacks included.
    """

    BLOCK = "block"
    RAISE = "raise"
    DROP_NEWEST = "drop_newest"
    DROP_OLDEST = "drop_oldest"
    CLEAR = "clear"
