"""A led partition as the journal of a coordinator: batches in, in order, and word when they are replicated."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tidelog.broker.logs import log
from tidelog.machine.runtime import Runtime
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import Offset
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.refusal import OFFLINE
from tidelog.wire.batch import BatchHeader, iter_headers
from tidelog.wire.small_batch import build_plain_batch

READ_BYTES: Final = 4 * 1024 * 1024
# Records that share a batch, and their bytes.
SHARED_RECORDS_MAX: Final = 1000
SHARED_BYTES_MAX: Final = 256 * 1024


class PartitionJournal:
    """`on_committed` gets the end of each batch when it is safe; `on_lost` is called once when one never will be."""

    def __init__(
        self, leader: PartitionLeader, on_committed: Callable[[Offset], None], on_lost: Callable[[], None]
    ) -> None:
        self._leader = leader
        self._on_committed = on_committed
        self._on_lost = on_lost
        # The ends of batches that are staged or written, and not known to be replicated.
        self._appended: deque[Offset] = deque()
        # Records that wait for the turn's write to become one batch, and the offset of the first.
        self._shared: list[tuple[int, bytes, bytes | None]] = []
        self._shared_base = Offset(0)
        self._shared_bytes = 0

    def lead(self, runtime: Runtime[Any, Any]) -> None:
        """Have a machine lead that has loaded all of the log. It answers nothing before all that it knows is safe."""
        leader = self._leader
        end = leader.log.end_offset
        runtime.lead(leader.epoch, end)
        if leader.high_watermark < end:
            runtime.committed_end = leader.high_watermark
            self._appended.append(end)
            leader.waiting_acks.add(end, self)

    def append(self, batch: bytes | bytearray) -> Offset:
        """Stage a batch for the turn's write; returns the offset after it. Raises ProtocolError when it cannot be."""
        self._check()
        end = self._leader.stage_own(batch, self)
        self._appended.append(end)
        return end

    def append_now(self, batch: bytearray, timestamp_ms: int) -> Offset:
        """Write a record's batch that is safe with that (`writes_at_once`), of which nobody is told; the offset after
        it. Raises ProtocolError when it is not written.
        """
        return self._leader.append_own(batch, timestamp_ms)

    def append_shared(self, records: Sequence[tuple[int, bytes, bytes | None]]) -> Offset:
        """Have records (timestamp, key, value) written with others of the turn as one batch; the offset after them."""
        self._check()
        shared = self._shared
        if not shared:
            self._shared_base = self._leader.expect_own(self)
        shared += records
        end = Offset(self._shared_base + len(shared))
        for _, key, value in records:
            self._shared_bytes += len(key) + len(value or b"")
        if len(shared) >= SHARED_RECORDS_MAX or self._shared_bytes >= SHARED_BYTES_MAX:
            self._leader.stage_expected()
        return end

    def _check(self) -> None:
        if self._leader.failed:
            raise ProtocolError(*OFFLINE)
        if not self._leader.enough_in_sync():
            # What is written now could not become committed: the client shall ask again, not wait.
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas are in sync")

    def stage_expected(self, leader: PartitionLeader) -> None:
        """The leader is about to write, or to give the next offset to somebody else."""
        shared, self._shared, self._shared_bytes = self._shared, [], 0
        end = Offset(self._shared_base + len(shared))
        self._appended.append(end)
        try:
            staged_end = leader.stage_own(build_plain_batch(shared), self)
        except ProtocolError:
            self.failed()
        else:
            assert staged_end == end, f"{leader} has given the offsets before {end} to somebody else"

    @property
    def writes_at_once(self) -> bool:
        """Whether writing alone makes records safe: no other broker and no sync is to be waited for."""
        return self._leader.own_write_is_enough

    def write_now(self) -> None:
        """Write what is staged before the turn ends, if that alone makes it safe."""
        if self._appended and self.writes_at_once:
            self._leader.write_staged()

    def batches(self) -> Iterator[tuple[memoryview, int, BatchHeader]]:
        """Everything in the log, from its start: (data, position, header) of each batch."""
        partition_log = self._leader.log
        offset, end = partition_log.start_offset, partition_log.end_offset
        while offset < end:
            piece = partition_log.read(offset, READ_BYTES, end)
            if piece is None:
                return
            data = memoryview(piece.read())
            for position, header in iter_headers(data):
                offset = header.next_offset
                yield data, position, header

    # What the leader tells who waits for it, once for each batch and in their order.

    def replicated(self) -> None:
        # A batch that was only waiting for its sync when a later one was lost concerns nobody any more.
        if self._appended:
            self._on_committed(self._appended.popleft())

    def failed(self) -> None:
        """What the machine believes was not written: it must begin again from what was."""
        if self._appended:
            self._appended.clear()
            if not self._leader.resigned:
                log.error("a coordinator could not write and starts over", partition=str(self._leader))
            self._on_lost()
