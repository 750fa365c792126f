"""One member of a consumer group, as two records say it: what it wants, and what it has."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from tidelog.groups.classic.subscriptions import Protocols
from tidelog.groups.consumer.assignment import NOTHING, Assignment, OwnedSince, as_lists, assignment_of, owned_since
from tidelog.model.ids import TopicId
from tidelog.wire.messages.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

# Epochs with a meaning of their own, in requests and in what is written.
JOINING: Final = 0
LEFT: Final = -1
LEFT_FOR_A_WHILE: Final = -2


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment."""

    STABLE = 0
    # It must first give up partitions.
    UNREVOKED = 1
    # It waits for partitions that others must give up first.
    UNRELEASED = 2
    # Written by a newer broker.
    UNKNOWN = 127


class ClassicSide(msgspec.Struct, frozen=True):
    """What makes a member one that speaks the classic protocol (KIP-848, online migration)."""

    session_timeout_ms: int
    protocols: Protocols


class ConsumerMember(msgspec.Struct, frozen=True):
    """A member at one moment."""

    member_id: str
    epoch: int = 0
    # What it had before, which it may still name when an answer was lost.
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    assignor: str | None = None
    assigned: Assignment = NOTHING
    # What it has been told to give up and has not yet said that it did.
    revoking: Assignment = NOTHING
    # Of both, made of the records as they come (KIP-1251). What compaction takes away makes it later, which is safe.
    since: OwnedSince = msgspec.field(default_factory=dict)
    classic: ClassicSide | None = None

    def changed(self, **changes: object) -> ConsumerMember:
        return msgspec.structs.replace(self, **changes)

    def at_epoch(self, epoch: int, **changes: object) -> ConsumerMember:
        """Changed, and in an epoch; a new one remembers the one before."""
        if epoch != self.epoch:
            changes |= {"epoch": epoch, "previous_epoch": self.epoch}
        return self.changed(**changes)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def has_owned(self, topic_id: TopicId, partition: int, epoch: int) -> bool:
        """Whether a partition was its own in this epoch, which may be an older one, and has been ever since."""
        since = self.since.get(topic_id, {}).get(partition)
        return since is not None and since <= epoch <= self.epoch

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """As a record of its subscription says."""
        classic = value.classic_member_metadata
        return self.changed(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            pattern=value.subscribed_topic_regex or None,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicSide(
                classic.session_timeout_ms,
                tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols),
            ),
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        """As a record of its current assignment says."""
        known = value.state in MemberState.__members__.values()
        assigned = assignment_of(value.assigned_partitions)
        revoking = assignment_of(value.partitions_pending_revocation)
        # One that has left, or begins anew, has nothing of old.
        goes_on = 0 < self.epoch <= value.member_epoch
        return self.changed(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=assigned,
            revoking=revoking,
            since=owned_since(self.since if goes_on else {}, value.member_epoch, (assigned, revoking)),
        )

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        classic = self.classic
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics),
            subscribed_topic_regex=self.pattern,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=None
            if classic is None
            else ClassicMemberMetadata(
                classic.session_timeout_ms, [ClassicProtocol(name, metadata) for name, metadata in classic.protocols]
            ),
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=as_lists(self.assigned, TopicPartitions),
            partitions_pending_revocation=as_lists(self.revoking, TopicPartitions),
        )
