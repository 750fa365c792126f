"""The metadata store of a single broker: a quorum of one.

Its log is `__cluster_metadata-0`, in Kafka's own format, kept by the `log` package. Commands are appended at once and
synced in a thread; they are committed, published and answered when the sync is done, many of them by one sync. A
larger quorum will take the same place: nothing above knows which one runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final, Protocol, TypeVar

from tidelog.broker.logs import log
from tidelog.controller.brokers import register
from tidelog.controller.features import bootstrap
from tidelog.controller.state import Controller
from tidelog.env.clock import Clock
from tidelog.log.config import LogConfig
from tidelog.log.errors import LogFailed
from tidelog.log.open_files import OpenFiles
from tidelog.log.partition import PartitionLog
from tidelog.log.recovery import create_log, open_log
from tidelog.machine.runtime import Result, Runtime
from tidelog.metadata.codec import decode_record, encode_record
from tidelog.metadata.image import BrokerRegistration
from tidelog.metadata.publisher import Publisher
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicPartition
from tidelog.model.names import METADATA_TOPIC
from tidelog.wire.batch import iter_headers, read_header
from tidelog.wire.control import build_quorum_control
from tidelog.wire.messages.control_records import LeaderChangeMessage, LeaderChangeMessageVoter
from tidelog.wire.records import Record, build_batch, read_records
from tidelog.wire.schema import Message

ReplyT = TypeVar("ReplyT")
READ_BYTES: Final = 1024 * 1024
METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, PartitionIndex(0))
# Metadata is never deleted by age: the newest value of everything must be there.
METADATA_LOG_CONFIG: Final = LogConfig(retention_ms=-1, deletes_old_segments=False)


class Loop(Protocol):
    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object: ...


class QuorumOfOne:
    """Controller, journal and committed image of a cluster with one voter."""

    def __init__(
        self,
        node_id: NodeId,
        metadata_log: PartitionLog,
        build: Callable[[], Controller],
        publisher: Publisher,
        now_ms: Callable[[], int],
        loop: Loop,
        executor: Executor,
    ) -> None:
        self._node_id = node_id
        self._log = metadata_log
        self._publisher = publisher
        self._now_ms = now_ms
        self._loop = loop
        self._executor = executor
        # Appended, not yet known to be on disk.
        self._unsynced: deque[tuple[Sequence[Message], Offset, LeaderEpoch]] = deque()
        self._syncing = False
        self._failed: LogFailed | None = None
        self._epoch = LeaderEpoch(0)
        self._broker_epoch = -1
        self._runtime: Runtime[Controller, Message] = Runtime(build, self)

    @property
    def controller_id(self) -> NodeId:
        return self._node_id

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's own registration."""
        return self._broker_epoch

    def load(self) -> None:
        """Replay what the log holds, so that the topics and their settings are known."""
        self._epoch = self._replay_all()

    def lead(self, registration: BrokerRegistration) -> None:
        """Lead in a new epoch, and register this broker. All of it is on disk and in the image when this returns."""
        leading = LeaderEpoch(self._epoch + 1)
        voters = [LeaderChangeMessageVoter(self._node_id)]
        message = LeaderChangeMessage(leader_id=self._node_id, voters=voters, granting_voters=voters)
        self._write(build_quorum_control([message], self._log.end_offset, leading, self._now_ms()), leading)
        self._runtime.lead(leading, self._log.end_offset)
        self._syncing = True  # Nobody is served yet, so the first sync need not be in a thread.
        self._runtime.submit(bootstrap, _raise_if_refused)
        self._runtime.submit(
            lambda controller: register(controller, registration, self._now_ms(), ready=True), self._registered
        )
        end = self._log.end_offset
        self._log.flush()
        self._synced(end, None)

    def close(self) -> None:
        if self._failed is None:
            self._log.close()

    def _registered(self, outcome: int | ProtocolError) -> None:
        _raise_if_refused(outcome)
        assert isinstance(outcome, int)
        self._broker_epoch = outcome

    def submit(
        self,
        command: Callable[[Controller], Result[Message, ReplyT]],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        self._runtime.submit(command, answer)

    # The journal of the runtime.

    def append(self, records: Sequence[Message], epoch: LeaderEpoch) -> Offset:
        if self._failed is not None:
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata log failed: {self._failed}")
        now_ms = self._now_ms()
        batch = build_batch(
            [Record(position, now_ms, None, encode_record(record)) for position, record in enumerate(records)]
        )
        try:
            self._write(batch, epoch)
        except LogFailed as failure:
            # A full disk, most likely. Nothing of it was written; the next change may be again.
            raise ProtocolError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata log cannot be written: {failure}"
            ) from failure
        end = self._log.end_offset
        self._unsynced.append((records, end, epoch))
        self._sync_soon()
        return end

    def _write(self, batch: bytes, epoch: LeaderEpoch) -> None:
        view = memoryview(bytearray(batch))
        self._log.stage(read_header(view), view, epoch)
        self._log.write_staged()

    def _sync_soon(self) -> None:
        if self._syncing or not self._unsynced:
            return
        self._syncing = True
        end = self._log.end_offset
        self._executor.submit(self._sync, end)

    def _sync(self, end: Offset) -> None:
        """In a thread: everything appended before it began is on disk when it is done."""
        failure: LogFailed | None = None
        try:
            self._log.flush()
        except LogFailed as error:
            failure = error
        self._loop.call_soon_threadsafe(lambda: self._synced(end, failure))

    def _synced(self, end: Offset, failure: LogFailed | None) -> None:
        self._syncing = False
        if failure is not None:
            # What is on disk is unknown now, so nothing more is acknowledged: a failed sync is never retried as
            # success.
            self._failed = failure
            log.error("the metadata log cannot be synced; no more changes are accepted", reason=str(failure))
            self._runtime.resign()
            return
        while self._unsynced and self._unsynced[0][1] <= end:
            records, records_end, epoch = self._unsynced.popleft()
            self._publisher.apply(records, Offset(records_end - 1), epoch)
        self._runtime.committed(end)
        self._sync_soon()

    def _replay_all(self) -> LeaderEpoch:
        """Read the log from its start; returns the newest epoch in it."""
        offset = self._log.start_offset
        epoch = LeaderEpoch(0)
        while offset < self._log.end_offset:
            piece = self._log.read(offset, READ_BYTES, self._log.end_offset, at_least_one_batch=True)
            assert piece is not None
            data = memoryview(piece.read())
            for position, header in iter_headers(data):
                epoch = LeaderEpoch(header.leader_epoch)
                if not header.is_control:
                    records = [decode_record(record.value or b"") for record in read_records(data, position)]
                    last = Offset(header.last_offset)
                    self._runtime.load(records, last, epoch)
                    self._publisher.apply(records, last, epoch)
                offset = Offset(header.last_offset + 1)
        return epoch


def open_metadata_log(directory: str, open_files: OpenFiles, clock: Clock) -> PartitionLog:
    """The metadata log in a log directory, every batch of it checked; a new one where there is none."""
    folder = f"{directory}/{METADATA_PARTITION}"
    if open_files.files.exists(folder):
        return open_log(METADATA_PARTITION, folder, open_files, clock, METADATA_LOG_CONFIG, clean=False)
    return create_log(METADATA_PARTITION, folder, open_files, clock, METADATA_LOG_CONFIG)


def _raise_if_refused(outcome: object) -> None:
    if isinstance(outcome, ProtocolError):
        raise outcome
