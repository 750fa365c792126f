"""The end of a transaction all of whose partitions this broker leads: each gets its marker, in this very turn.

The host of a shard tries it first. Whatever is not that simple, committed offsets among them, and whatever fails, is
for `broker/transaction_markers.py`, which may write markers again that were written here: they do no harm. Nearly all
transactions of most producers are in one partition; `OnlyMarker` does with less for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tidelog.broker.group_coordinator import OFFSETS_TOPIC
from tidelog.model.errors import ProtocolError
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import NONE_LED
from tidelog.transactions.calls import Ending
from tidelog.transactions.states import State
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION, Transaction
from tidelog.wire.small_batch import build_marker

Led = Mapping[str, Mapping[int, PartitionLeader]]


class LocalEnd:
    """Waits for the markers of one transaction. `done` is told once whether all of them are replicated."""

    __slots__ = ("_done", "_failed", "_missing", "ending", "ends_with_turn", "now_ms")

    def __init__(self, ending: Ending, done: Callable[[LocalEnd, bool], None]) -> None:
        self.ending = ending
        self._done: Callable[[LocalEnd, bool], None] | None = done
        self._missing = 0
        self._failed = False
        # Whether only this broker's own writes are missing: nobody who is answered now can look before they are done.
        self.ends_with_turn = False
        # When it was decided.
        self.now_ms = 0

    def write(self, led: Led, now_ms: int) -> bool:
        """Have the markers written in this turn; False, and nothing was done, when it takes more than that."""
        ending = self.ending
        self.now_ms = now_ms
        producer_id, producer_epoch = ending.producer
        leaders = []
        is_alone = True
        # In an order: a simulation must be the same each time.
        for topic, index in sorted(ending.partitions):
            leader = led.get(topic, NONE_LED).get(index)
            if leader is None or leader.failed or topic == OFFSETS_TOPIC:
                return False
            try:
                leader.log.producers.check_marker(
                    producer_id,
                    producer_epoch,
                    ending.coordinator_epoch,
                    is_newer=ending.version >= EPOCH_BUMPING_VERSION,
                )
            except ProtocolError:
                return False
            is_alone = is_alone and leader.alone_is_enough and not leader.syncs_first
            leaders.append(leader)
        if not leaders:
            return False
        self.ends_with_turn = is_alone
        self._missing = len(leaders)
        for leader in leaders:
            # Made when the leader writes, for which whoever asked for the end need not wait.
            leader.expect_own(ExpectedMarker(self, leader), is_late=True)
        return True

    def cancel(self) -> None:
        """The coordinator does not lead any more."""
        self._done = None

    # What leaders tell, once for each marker.

    def replicated(self) -> None:
        self._missing -= 1
        if not self._missing and self._done is not None:
            self._done(self, not self._failed)

    def failed(self) -> None:
        self._failed = True
        self.replicated()


class ExpectedMarker:
    """A marker that its partition's leader asks for before it writes."""

    __slots__ = ("_end", "_leader")

    def __init__(self, end: LocalEnd, leader: PartitionLeader) -> None:
        self._end = end
        self._leader = leader

    def stage_expected(self) -> None:
        ending = self._end.ending
        producer_id, producer_epoch = ending.producer
        marker = build_marker(ending.committed, producer_id, producer_epoch, ending.coordinator_epoch, self._end.now_ms)
        try:
            self._leader.stage_own(marker, self._end)
        except ProtocolError:
            self._end.failed()


class EndsAtOnce(Protocol):
    """The host of a shard, as far as a marker is concerned that it has promised."""

    def only_marker_written(self, marker: OnlyMarker) -> None: ...
    def only_marker_failed(self, marker: OnlyMarker) -> None: ...


class OnlyMarker:
    """The marker of a decided transaction in its only partition, which its leader asks for before it writes."""

    __slots__ = ("_host", "_leader", "coordinator_epoch", "now_ms", "prepared", "transactional_id")

    def __init__(
        self,
        host: EndsAtOnce,
        leader: PartitionLeader,
        transactional_id: str,
        prepared: Transaction,
        coordinator_epoch: int,
        now_ms: int,
    ) -> None:
        self._host: EndsAtOnce | None = host
        self._leader = leader
        self.transactional_id = transactional_id
        self.prepared = prepared
        self.coordinator_epoch = coordinator_epoch
        # When it was decided.
        self.now_ms = now_ms

    def cancel(self) -> None:
        """The coordinator does not lead any more."""
        self._host = None

    def stage_expected(self) -> None:
        prepared = self.prepared
        marker = build_marker(
            prepared.state is State.PREPARE_COMMIT,
            prepared.producer_id,
            prepared.producer_epoch,
            self.coordinator_epoch,
            self.now_ms,
        )
        try:
            self._leader.stage_own(marker, self)
        except ProtocolError:
            self.failed()

    # What the leader tells, once.

    def replicated(self) -> None:
        if self._host is not None:
            self._host.only_marker_written(self)

    def failed(self) -> None:
        if self._host is not None:
            self._host.only_marker_failed(self)


def only_leader(led: Led, prepared: Transaction, coordinator_epoch: int) -> PartitionLeader | None:
    """The leader of the only partition of a transaction, if its marker may be promised to it: this broker's own write
    makes it safe. None when there is more to do."""
    partitions = prepared.partitions
    if len(partitions) != 1:
        return None
    ((topic, index),) = partitions
    leader = led.get(topic, NONE_LED).get(index)
    if (
        leader is None
        or leader.failed
        or not leader.alone_is_enough
        or leader.syncs_first
        # Committed offsets are also the group coordinator's.
        or topic == OFFSETS_TOPIC
    ):
        return None
    try:
        leader.log.producers.check_marker(
            prepared.producer_id, prepared.producer_epoch, coordinator_epoch, is_newer=True
        )
    except ProtocolError:
        return None
    return leader
