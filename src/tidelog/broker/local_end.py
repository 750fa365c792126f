"""The end of a transaction all of whose partitions this broker leads: each gets its marker, in this very turn.

The host of a shard tries it first. Whatever is not that simple, committed offsets among them, and whatever fails, is
for `broker/transaction_markers.py`, which may write markers again that were written here: they do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.broker.group_coordinator import OFFSETS_TOPIC
from tidelog.model.errors import ProtocolError
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import NONE_LED
from tidelog.transactions.calls import Ending
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION

Led = Mapping[str, Mapping[int, PartitionLeader]]


class LocalEnd:
    """Waits for the markers of one transaction. `done` is told once whether all of them are replicated."""

    __slots__ = ("_done", "_failed", "_leaders", "_missing", "ending", "ends_with_turn", "now_ms")

    def __init__(self, ending: Ending, done: Callable[[LocalEnd, bool], None]) -> None:
        self.ending = ending
        self._done: Callable[[LocalEnd, bool], None] | None = done
        self._leaders: list[PartitionLeader] = []
        self._missing = 0
        self._failed = False
        # Whether only this broker's own writes are missing: nobody who is answered now can look before they are done.
        self.ends_with_turn = False
        # When it was decided.
        self.now_ms = 0

    def write(self, led: Led, now_ms: int) -> bool:
        """Have the markers written in this turn; False, and nothing was done, when it takes more than that."""
        if not self.find_leaders(led):
            return False
        self.promise(now_ms)
        return True

    def find_leaders(self, led: Led) -> bool:
        """Look whether all partitions are led here and take their markers. Also before the end is written down."""
        ending = self.ending
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
        self._leaders = leaders
        return True

    def promise(self, now_ms: int) -> None:
        """Have the leaders that were found write the markers, now that the end is decided."""
        self.now_ms = now_ms
        self._missing = len(self._leaders)
        for leader in self._leaders:
            # Made when the leader writes, for which whoever asked for the end need not wait.
            leader.expect_own(self, is_late=True)

    def cancel(self) -> None:
        """The coordinator does not lead any more."""
        self._done = None

    # What leaders tell, once for each marker.

    def stage_expected(self, leader: PartitionLeader) -> None:
        ending = self.ending
        producer_id, producer_epoch = ending.producer
        try:
            leader.stage_marker(
                producer_id, producer_epoch, ending.committed, ending.coordinator_epoch, self.now_ms, self
            )
        except ProtocolError:
            self.failed()

    def replicated(self) -> None:
        self._missing -= 1
        if not self._missing and self._done is not None:
            self._done(self, not self._failed)

    def failed(self) -> None:
        self._failed = True
        self.replicated()
