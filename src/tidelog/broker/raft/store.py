"""The metadata store: the committed image on this node, and the controller while this node leads the quorum.

Everything above asks this one for the image, hands it commands, and never asks how many nodes agree on them: a single
broker is a quorum of one. It is the journal of the controller's runtime and the listener of the quorum's driver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from tidelog.broker.logs import log
from tidelog.broker.raft.driver import News, QuorumDriver
from tidelog.broker.raft.metadata_log import MetadataLog
from tidelog.broker.raft.snapshots import Snapshot
from tidelog.controller.state import Controller
from tidelog.log.errors import LogFailed
from tidelog.machine.runtime import Result, Role, Runtime
from tidelog.metadata.image import EMPTY, ClusterImage
from tidelog.metadata.publisher import Publisher
from tidelog.metadata.replay import replay
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_NODE, LeaderEpoch, NodeId, Offset
from tidelog.raft import effects as do
from tidelog.raft.ports import SnapshotId
from tidelog.raft.replicas import DYNAMIC_VOTERS_LEVEL, STATIC_VOTERS_LEVEL
from tidelog.raft.voter_history import VoterHistory
from tidelog.wire.schema import Message

ReplyT = TypeVar("ReplyT")

# Records of many batches are made one change of the image, up to this many.
RECORDS_AT_ONCE_MAX: Final = 10_000


class _Appended(NamedTuple):
    """What this node has appended as leader: kept until it is committed, so that it need not be read again."""

    records: list[Message]
    end: Offset
    epoch: LeaderEpoch


class QuorumStore:
    """The metadata of the cluster as this node knows it."""

    def __init__(
        self,
        metadata_log: MetadataLog,
        voters: VoterHistory,
        publisher: Publisher,
        build: Callable[[ClusterImage], Controller],
        now_ms: Callable[[], int],
        *,
        snapshot_bytes: int,
        snapshot_interval_ms: int,
    ) -> None:
        """A snapshot is taken after so many bytes of log, or with the first change after so much time; 0 is never."""
        self._driver: QuorumDriver | None = None
        self._log = metadata_log
        self.voters = voters
        self._publisher = publisher
        self._build = build
        self._now_ms = now_ms
        self._snapshot_bytes = snapshot_bytes
        self._snapshot_interval_ms = snapshot_interval_ms
        self._snapshot_ms = now_ms()
        self._size_at_snapshot = 0
        self._taking_snapshot = False
        # The first offset that the image does not hold yet.
        self._applied = Offset(0)
        self._own: deque[_Appended] = deque()
        self._runtime: Runtime[Controller, Message] = Runtime(lambda: build(EMPTY), self)
        self._on_leading: list[Callable[[], None]] = []
        self._on_leader_known: list[Callable[[], None]] = []
        self._on_failed: list[Callable[[], None]] = []

    # --- what others may ask ------------------------------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage:
        """Everything that is committed, as far as this node knows."""
        return self._publisher.image

    @property
    def controller_id(self) -> NodeId:
        """Who leads the quorum and takes commands; NO_NODE when nobody is known to."""
        return NO_NODE if self._driver is None else self._driver.quorum.leader

    @property
    def is_controller(self) -> bool:
        """Whether commands may be submitted here."""
        return self._runtime.role is Role.LEADING

    @property
    def kraft_version(self) -> int:
        """Whether the voters are a setting or records: the level of that feature (KIP-853)."""
        return DYNAMIC_VOTERS_LEVEL if self.voters.is_dynamic else STATIC_VOTERS_LEVEL

    def when_leading(self, act: Callable[[], None]) -> None:
        """Call `act` each time this node begins to take commands."""
        self._on_leading.append(act)

    def when_leader_is_known(self, act: Callable[[], None]) -> None:
        """Call `act` each time this node learns who leads."""
        self._on_leader_known.append(act)

    def when_failed(self, act: Callable[[], None]) -> None:
        """Call `act` when the disk has failed and no more metadata comes."""
        self._on_failed.append(act)

    def submit(
        self,
        command: Callable[[Controller], Result[Message, ReplyT]],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        """Run a command on the controller; `answer` gets its reply when all it read and wrote is committed."""
        self._runtime.submit(command, answer)

    # --- start and stop -----------------------------------------------------------------------------------------------

    def load(self, *, alone: bool) -> ClusterImage:
        """All that this node's own log says, as an image; `alone`: there is nobody who could know better.

        Otherwise its end may yet be cut, so it is not published; only what settings need may be taken from it.
        Raises OSError, CorruptLog.
        """
        snapshot = self._log.load_snapshot()
        if snapshot is not None:
            self._install(snapshot)
        image = self._publisher.image
        everything: list[Message] = []
        last, epoch = image.offset, image.epoch
        for records, last, epoch in self._log.records(self._applied, self._log.end_offset):  # noqa: B007
            everything += records
        image = replay(image, everything, last, epoch).after
        if alone:
            self._publisher.image = image
            self._applied = self._log.end_offset
        return image

    def start(self, driver: QuorumDriver) -> None:
        """Take part in the quorum. Raises OSError, LogFailed."""
        self._driver = driver
        self._size_at_snapshot = self._log.size_bytes
        driver.start(self)

    @property
    def driver(self) -> QuorumDriver:
        assert self._driver is not None, "the store was started"
        return self._driver

    def close(self) -> None:
        """After the driver has stopped: let go of the log. Raises LogFailed."""
        self._runtime.resign()
        self._log.close()

    # --- the journal of the runtime -----------------------------------------------------------------------------------

    def append(self, records: Any, epoch: LeaderEpoch) -> Offset:
        """One batch of the controller's. Raises ProtocolError when this node does not lead, or the disk is full."""
        if not self.driver.may_append(epoch):
            raise ProtocolError(ErrorCode.NOT_CONTROLLER, "This node does not lead any more.")
        try:
            end = self._log.append(records, epoch)
        except LogFailed as failure:
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata log failed: {failure}") from failure
        self._own.append(_Appended(list(records), end, epoch))
        self.driver.appended(epoch, end)
        return end

    # --- what the quorum says -----------------------------------------------------------------------------------------

    def on_news(self, news: News) -> None:
        if isinstance(news, do.CommittedUpTo):
            self._apply(news.offset)
            return
        if isinstance(news, do.LeadershipEstablished):
            self._lead(news.epoch)
        elif self._runtime.role is Role.LEADING and self.driver.quorum.leading_epoch != self._runtime.epoch:
            log.info("this node is the controller no more", epoch=self._runtime.epoch)
            self._own.clear()
            self._runtime.resign()
        if self.controller_id >= 0:
            for act in self._on_leader_known:
                act()

    def _lead(self, epoch: LeaderEpoch) -> None:
        if self.driver.quorum.leading_epoch != epoch:
            return  # Lost again before anybody could be told.
        log.info("this node is the controller", epoch=epoch)
        self._own.clear()
        self._runtime = Runtime(lambda: self._build(self._publisher.image), self)
        self._runtime.lead(epoch, self._log.end_offset)
        for act in self._on_leading:
            act()

    def on_snapshot(self, snapshot: Snapshot) -> None:
        self._own.clear()
        self._install(snapshot)

    def on_failed(self, reason: Exception) -> None:
        self._runtime.resign()
        for act in self._on_failed:
            act()

    def _install(self, snapshot: Snapshot) -> None:
        self._publisher.install(snapshot.records, Offset(snapshot.id.end_offset - 1), snapshot.id.epoch)
        self._applied = snapshot.id.end_offset

    # --- committed records --------------------------------------------------------------------------------------------

    def _apply(self, end: Offset) -> None:
        """Publish everything before `end`: what this node wrote from memory, the rest from the log."""
        own = self._own
        while own and own[0].end <= self._applied:
            own.popleft()
        while self._applied < end:
            if own and own[0].end <= end and own[0].end - len(own[0].records) == self._applied:
                written = own.popleft()
                self._publish(written.records, Offset(written.end - 1), written.epoch)
                continue
            up_to = min(Offset(own[0].end - len(own[0].records)), end) if own else end
            self._apply_from_log(up_to)
        self._runtime.committed(end)
        self._snapshot_if_due()

    def _apply_from_log(self, end: Offset) -> None:
        gathered: list[Message] = []
        last, epoch = Offset(self._applied - 1), LeaderEpoch(0)
        for records, last, epoch in self._log.records(self._applied, end):
            gathered += records
            if len(gathered) >= RECORDS_AT_ONCE_MAX:
                self._publish(gathered, last, epoch)
                gathered = []
        if last >= self._applied:
            self._publish(gathered, last, epoch)

    def _publish(self, records: list[Message], last: Offset, epoch: LeaderEpoch) -> None:
        self._applied = Offset(last + 1)
        self._publisher.apply(records, last, epoch)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def _snapshot_if_due(self) -> None:
        has_grown = self._log.size_bytes - self._size_at_snapshot >= self._snapshot_bytes
        interval_ms = self._snapshot_interval_ms
        if has_grown or (interval_ms and self._now_ms() - self._snapshot_ms >= interval_ms):
            self.take_snapshot()

    def take_snapshot(self) -> None:
        """Write down all that is committed as one snapshot, unless that is being done or was done already."""
        newest = self._log.snapshot
        end = self._applied
        if self._taking_snapshot or end == 0 or (newest is not None and newest.end_offset >= end):
            return
        self._taking_snapshot = True
        snapshot = SnapshotId(end, self._log.epoch_at(Offset(end - 1)))
        image = self._publisher.image
        voters = self.voters.at(end) if self.voters.is_dynamic else None

        def done() -> None:
            self._taking_snapshot = False
            self._size_at_snapshot = self._log.size_bytes
            self._snapshot_ms = self._now_ms()
            log.info("metadata snapshot written", end=end)

        self.driver.take_snapshot(snapshot, lambda: self._log.write_snapshot(snapshot, image, voters), done)
