"""Who is in sync with a leader: each follower's end offset, who holds the high watermark back, which change of the ISR
to propose (KIP-497, KIP-841, KIP-903).

Kept by the leader of one partition. Times are passed in; the controller alone decides what the ISR is, and until it has
answered, everyone who may be in it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_OFFSET, LeaderEpoch, NodeId, Offset, PartitionIndex, TopicId

NO_BROKER_EPOCH: Final = -1
NEVER_FETCHED: Final = Offset(2**63 - 1)
# The controller may have done it or not, or will never do it in this form: the metadata will tell which.
WAIT_FOR_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
# The controller did not do it, for certain.
NOT_DONE: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})

# The epoch of a broker that may join an ISR, or None for one that is fenced, shuts down or is unknown.
EligibleEpoch = Callable[[NodeId], int | None]


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """What a leader asks the controller for: this ISR, each member with the epoch of its broker."""

    topic_id: TopicId
    partition: PartitionIndex
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[tuple[NodeId, int], ...]

    @property
    def members(self) -> tuple[NodeId, ...]:
        return tuple(node for node, _ in self.isr)


class Follower:
    """What the leader knows of one follower."""

    __slots__ = ("broker_epoch", "caught_up_ms", "end_offset", "fetched_ms", "leader_end_at_fetch", "start_offset")

    def __init__(self, caught_up_ms: int) -> None:
        self.end_offset = NO_OFFSET
        self.start_offset = NO_OFFSET
        self.broker_epoch = NO_BROKER_EPOCH
        # When it last had everything there was.
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = 0
        self.leader_end_at_fetch = NEVER_FETCHED

    def fetched(self, offset: Offset, leader_end: Offset, now_ms: int) -> None:
        """It has everything before `offset`."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_at_fetch:
            # It has what there was when it last asked: under constant load nobody ever has all there is.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = offset
        self.fetched_ms = now_ms
        self.leader_end_at_fetch = leader_end

    def is_caught_up(self, leader_end: Offset, now_ms: int, lag_ms_max: int) -> bool:
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= lag_ms_max


class InSync:
    """The replicas of one partition as its leader sees them."""

    __slots__ = (
        "epoch_start",
        "followers",
        "heard_ms",
        "isr",
        "lag_ms_max",
        "leader_epoch",
        "maximal_isr",
        "node_id",
        "partition_epoch",
        "pending",
        "replicas",
        "waited_for",
    )

    def __init__(self, node_id: NodeId, lag_ms_max: int, heard_ms: dict[NodeId, int]) -> None:
        self.node_id = node_id
        self.lag_ms_max = lag_ms_max
        # When each broker last fetched anything, shared by all partitions: one that has nothing new is not named.
        self.heard_ms = heard_ms
        self.replicas: tuple[NodeId, ...] = (node_id,)
        self.isr: tuple[NodeId, ...] = (node_id,)
        # The ISR and those who are proposed for it: the controller may already count on them.
        self.maximal_isr: tuple[NodeId, ...] = (node_id,)
        self.leader_epoch = LeaderEpoch(-1)
        self.partition_epoch = -1
        # Where the leader's log ended when its epoch began: who has less may still be cut back.
        self.epoch_start = Offset(0)
        self.followers: dict[NodeId, Follower] = {}
        self.pending: IsrProposal | None = None
        # Caught up, but not in the ISR yet: the high watermark waits for them, or they would never catch it.
        self.waited_for: set[NodeId] = set()

    def lead(
        self,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        replicas: tuple[NodeId, ...],
        isr: tuple[NodeId, ...],
        end: Offset,
        now_ms: int,
    ) -> None:
        """Take over what the metadata says; in a new leader epoch nothing is known of the followers."""
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.epoch_start = end
            self.followers.clear()
            self.waited_for.clear()
        elif partition_epoch <= self.partition_epoch:
            return  # What the controller answered was faster than the metadata.
        self._adopt(partition_epoch, replicas, isr, now_ms)

    def _adopt(self, partition_epoch: int, replicas: tuple[NodeId, ...], isr: tuple[NodeId, ...], now_ms: int) -> None:
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.isr = isr
        self.maximal_isr = isr
        self.pending = None
        for node in replicas:
            if node != self.node_id and node not in self.followers:
                # A member of the ISR is trusted until it has had time to prove it.
                self.followers[node] = Follower(now_ms if node in isr else now_ms - self.lag_ms_max - 1)
        for node in self.followers.keys() - set(replicas):
            del self.followers[node]
        self.waited_for.difference_update(isr)
        self.waited_for.intersection_update(self.followers)

    # The followers

    def fetched(
        self, node: NodeId, broker_epoch: int, offset: Offset, start: Offset, leader_end: Offset, now_ms: int
    ) -> bool:
        """Note what a follower has; False for a fetch that an older incarnation of it sent."""
        follower = self.followers[node]
        if broker_epoch != NO_BROKER_EPOCH and broker_epoch < follower.broker_epoch:
            return False
        follower.broker_epoch = broker_epoch
        follower.start_offset = start
        follower.fetched(offset, leader_end, now_ms)
        return True

    def wait_for(self, node: NodeId, leader_end: Offset, now_ms: int, eligible: EligibleEpoch) -> None:
        """Let the high watermark wait for a follower that is about to join, as long as it keeps up."""
        if node in self.isr:
            return
        if self.followers[node].is_caught_up(leader_end, now_ms, self.lag_ms_max) and self._may_join(node, eligible):
            self.waited_for.add(node)
        else:
            self.waited_for.discard(node)

    def grew(self, end_before: Offset) -> None:
        """The leader appends: who had everything until now was caught up when it was last heard of."""
        for node, follower in self.followers.items():
            if follower.end_offset == end_before:
                follower.caught_up_ms = max(follower.caught_up_ms, self.heard_ms.get(node, 0))

    def lowest_end(self, own_end: Offset) -> Offset:
        """The wooden bucket: what every replica has that is, or may be, in sync."""
        lowest = own_end
        for node, follower in self.followers.items():
            if (node in self.maximal_isr or node in self.waited_for) and follower.end_offset < lowest:
                lowest = follower.end_offset
        return lowest

    # Changes of the ISR

    def propose(
        self,
        topic_id: TopicId,
        partition: PartitionIndex,
        high_watermark: Offset,
        leader_end: Offset,
        now_ms: int,
        own_broker_epoch: int,
        eligible: EligibleEpoch,
    ) -> IsrProposal | None:
        """The change that is due now, kept as pending until it is answered; None while one is, or none is due."""
        if self.pending is not None:
            return None
        for node in tuple(self.waited_for):
            self.wait_for(node, leader_end, now_ms, eligible)
        isr = [
            node
            for node in self.isr
            if node == self.node_id or self.followers[node].is_caught_up(leader_end, now_ms, self.lag_ms_max)
        ]
        isr += [
            node
            for node, follower in self.followers.items()
            if node not in self.isr
            and self._is_in_sync(follower, high_watermark)
            # Else it would have to leave again at once: below min.insync.replicas the high watermark waits for nobody.
            and follower.is_caught_up(leader_end, now_ms, self.lag_ms_max)
            and self._may_join(node, eligible)
        ]
        if tuple(isr) == self.isr:
            return None
        self.maximal_isr = (*self.isr, *(node for node in isr if node not in self.isr))
        self.pending = IsrProposal(
            topic_id, partition, self.leader_epoch, self.partition_epoch, self._with_epochs(isr, own_broker_epoch)
        )
        return self.pending

    def _with_epochs(self, isr: Iterable[NodeId], own_broker_epoch: int) -> tuple[tuple[NodeId, int], ...]:
        return tuple(
            (node, own_broker_epoch if node == self.node_id else self.followers[node].broker_epoch) for node in isr
        )

    def _is_in_sync(self, follower: Follower, high_watermark: Offset) -> bool:
        return follower.end_offset >= high_watermark and follower.end_offset >= self.epoch_start

    def _may_join(self, node: NodeId, eligible: EligibleEpoch) -> bool:
        epoch = eligible(node)
        return epoch is not None and self.followers[node].broker_epoch in (epoch, NO_BROKER_EPOCH)

    def accepted(self, proposal: IsrProposal, partition_epoch: int, isr: tuple[NodeId, ...], now_ms: int) -> None:
        """The controller agreed. The metadata will say the same; whichever comes first counts."""
        if self.pending is proposal and partition_epoch > self.partition_epoch:
            self._adopt(partition_epoch, self.replicas, isr, now_ms)

    def refused(self, proposal: IsrProposal, code: ErrorCode) -> bool:
        """The controller did not agree; True when the same proposal is to be sent again."""
        if self.pending is not proposal:
            return False
        if code in NOT_DONE:
            self.pending = None
            self.maximal_isr = self.isr
            return False
        return code not in WAIT_FOR_METADATA
