"""Replicas with a mistake that was put in on purpose, by name. Each must be found by the simulation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tidelog.broker.handlers import fetch
from tidelog.controller import isr_changes
from tidelog.metadata.delta import PartitionChange
from tidelog.model.ids import NodeId, Offset
from tidelog.replica import follower as followers
from tidelog.replica import leader as leaders
from tidelog.replica.follower import GO_ON, Outcome, PartitionFollower
from tidelog.replica.in_sync import Follower, InSync
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.messages.fetch import FetchPartition

Patch = tuple[Any, str, Any]


def _truncate_to_the_high_watermark() -> list[Patch]:
    follow = LedPartitions._follow

    def cut_first(self: LedPartitions, change: PartitionChange) -> None:
        follow(self, change)
        follower = self.followed[change.topic_id][change.partition]
        follower.log.truncate_to(follower.high_watermark)

    return [(LedPartitions, "_follow", cut_first)]


def _acknowledge_before_replication() -> list[Patch]:
    return [(InSync, "lowest_end", lambda self, own_end: own_end)]


def _let_a_stale_leader_choose_its_own_isr() -> list[Patch]:
    """It needs nobody's agreement: who is silent is out, at once."""
    propose = InSync.propose

    def decide(self: InSync, *args: Any) -> Any:
        proposal = propose(self, *args)
        if proposal is not None:
            self.isr = self.maximal_isr = proposal.members
        return proposal

    return [(InSync, "propose", decide)]


def _let_an_old_incarnation_count() -> list[Patch]:
    """Neither the leader nor the controller asks whether a broker was restarted since it was last heard of."""

    def fetched(
        self: InSync, node: NodeId, broker_epoch: int, offset: Offset, start: Offset, leader_end: Offset, now_ms: int
    ) -> bool:
        self.followers[node].fetched(offset, leader_end, now_ms)
        return True

    return [(InSync, "fetched", fetched)]


def _grow_the_isr_too_early() -> list[Patch]:
    def nearly(self: InSync, follower: Follower, high_watermark: Offset) -> bool:
        return follower.end_offset >= max(high_watermark - 3, 0)

    return [(InSync, "_is_in_sync", nearly)]


def _forget_who_may_be_in_the_isr() -> list[Patch]:
    """While a proposal is on its way only the old ISR counts, and nobody waits for who is about to join."""

    def lowest_end(self: InSync, own_end: Offset) -> Offset:
        ends = [follower.end_offset for node, follower in self.followers.items() if node in self.isr]
        return min([own_end, *ends])

    return [(InSync, "lowest_end", lowest_end)]


def _believe_logs_of_any_epoch() -> list[Patch]:
    def agreed(*_: object) -> None:
        return None

    return [(leaders, "divergence", agreed), (followers, "divergence", agreed)]


def _count_fetches_of_any_epoch() -> list[Patch]:
    fetched_by = PartitionLeader.fetched_by

    def trusting(self: PartitionLeader, node: NodeId, broker_epoch: int, position: FetchPartition, now_ms: int) -> None:
        position.current_leader_epoch = self.epoch
        position.last_fetched_epoch = -1
        fetched_by(self, node, broker_epoch, position, now_ms)

    return [(PartitionLeader, "fetched_by", trusting)]


def _show_consumers_what_is_not_committed() -> list[Patch]:
    read = fetch.Reading._read

    def up_to_the_end(self: Any, fetched: Any, left_bytes: int) -> Any:
        leader = self._leader(fetched)
        if leader is not None and self.replica < 0:
            kept, leader.high_watermark = leader.high_watermark, leader.log.end_offset
            try:
                return read(self, fetched, left_bytes)
            finally:
                leader.high_watermark = kept
        return read(self, fetched, left_bytes)

    return [(fetch.Reading, "_read", up_to_the_end)]


def _append_without_checking() -> list[Patch]:
    def trusting(self: PartitionFollower, records: memoryview) -> tuple[memoryview, None]:
        return records, None

    def append(self: PartitionFollower, records: memoryview) -> Outcome:
        self.log.append_replicated(records)
        return GO_ON

    return [(PartitionFollower, "_sound_part", trusting), (PartitionFollower, "_append", append)]


def _take_any_isr() -> list[Patch]:
    return [(isr_changes, "_check", lambda *_: None), *_grow_the_isr_too_early()]


def _fetch_on_before_the_sync() -> list[Patch]:
    append = PartitionFollower._append

    def hasty(self: PartitionFollower, records: memoryview) -> Outcome:
        append(self, records)
        return GO_ON

    return [(PartitionFollower, "_append", hasty)]


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    function.__name__.removeprefix("_"): function
    for function in (
        _truncate_to_the_high_watermark,
        _acknowledge_before_replication,
        _let_a_stale_leader_choose_its_own_isr,
        _let_an_old_incarnation_count,
        _grow_the_isr_too_early,
        _forget_who_may_be_in_the_isr,
        _believe_logs_of_any_epoch,
        _count_fetches_of_any_epoch,
        _show_consumers_what_is_not_committed,
        _append_without_checking,
        _take_any_isr,
        _fetch_on_before_the_sync,
    )
}


@contextlib.contextmanager
def mutant(name: str) -> Iterator[None]:
    """Make the mistake for a while."""
    patches = MUTANTS[name]()
    kept = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in patches]
    for owner, attribute, replacement in patches:
        setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        for owner, attribute, original in kept:
            setattr(owner, attribute, original)
