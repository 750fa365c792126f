"""The blocking consumer that is a member of a classic group: joins, reads what it is assigned, commits, leaves.

All happens inside `poll`, also heartbeats: who does not poll for as long as the session loses its partitions. What the
caller says is done is committed now and then, before partitions are given up, and at the end. Not for two threads at
once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from tidelog.client.admin import accepted
from tidelog.client.cluster import Cluster
from tidelog.client.connection import Connection
from tidelog.client.consumer import Consumer, OffsetReset
from tidelog.client.core import membership as core
from tidelog.client.core.groups import OFFSET_COMMIT_BY_NAME, CommittedOffset, commit_offsets, committed_offsets
from tidelog.client.core.membership import Membership
from tidelog.client.core.metadata import Node
from tidelog.client.core.record import ConsumerRecord
from tidelog.client.deadline import Deadline
from tidelog.client.errors import ClientError, Rejected, check
from tidelog.client.groups import Groups
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, TopicName, TopicPartition
from tidelog.wire.messages.heartbeat import HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.offset_commit import OffsetCommitResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse
from tidelog.wire.schema import Request, Response

SESSION_S: Final = 45.0
HEARTBEAT_S: Final = 3.0
REBALANCE_S: Final = 300.0
COMMIT_S: Final = 5.0
# How often to look whether there are new topics or partitions to share.
DISCOVER_S: Final = 5.0
MILLISECONDS: Final = 1000

# The member must join again: as itself, or as somebody new.
REJOIN: Final = (ErrorCode.REBALANCE_IN_PROGRESS,)
EXPELLED: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)

GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

R = TypeVar("R", bound=Response)


class GroupConsumer:
    """A member of a group."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Callable[[], Iterable[TopicName]],
        *,
        offset_reset: OffsetReset = OffsetReset.LATEST,
        read_committed: bool = False,
        session_s: float = SESSION_S,
        heartbeat_s: float = HEARTBEAT_S,
        commit_s: float | None = COMMIT_S,
    ) -> None:
        """`topics` says what to read, and is asked again now and then. Without `commit_s` only `commit` commits."""
        self._cluster = cluster
        self._topics = topics
        self._offset_reset = offset_reset
        self._session_ms = int(session_s * MILLISECONDS)
        self._heartbeat_s = heartbeat_s
        self._commit_s = commit_s
        self._consumer = Consumer(cluster, read_committed=read_committed, offset_reset=offset_reset)
        self._groups = Groups(cluster)
        self._membership = Membership(group_id)
        self._coordinator: Node | None = None
        self._joined = False
        self._is_leader = False
        self._subscribed: list[TopicName] = []
        # What the leader saw when it shared the partitions: topic to number of partitions.
        self._known: dict[TopicName, int] = {}
        self._done: dict[TopicPartition, Offset] = {}
        self._heartbeat_at = self._commit_at = self._discover_at = 0.0

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now."""
        return self._consumer.assignment

    def poll(self, timeout_s: float) -> list[ConsumerRecord]:
        """Records as soon as there are any; none when the time is up, or while the group has nothing for us."""
        deadline = Deadline(timeout_s)
        try:
            self._keep_up()
        except ClientError as error:
            if not self._survives(error):
                raise
        wait_s = min(deadline.remaining_s(), max(0.0, self._heartbeat_at - time.monotonic()))
        if not self._joined or not self._consumer.assignment:
            time.sleep(min(wait_s or deadline.remaining_s(), deadline.remaining_s()))
            return []
        try:
            return self._consumer.poll(wait_s)
        except Rejected as error:
            if error.code not in GONE:
                raise
            self._drop_missing()
            return []

    def done(self, record: ConsumerRecord) -> None:
        """A record was dealt with: the group goes on after it."""
        self._done[TopicPartition(record.topic, record.partition)] = Offset(record.offset + 1)

    def commit(self) -> None:
        """Let the group remember how far it has come. Raises Rejected when we are no longer the one who may say so."""
        if not self._done:
            return
        offsets = {place: CommittedOffset(offset) for place, offset in self._done.items()}
        request = commit_offsets(self._membership.group_id, offsets)
        request.generation_id_or_member_epoch = self._membership.generation
        request.member_id = self._membership.member_id
        answer = self._ask(request, OffsetCommitResponse, at_most=OFFSET_COMMIT_BY_NAME)
        for rejected in committed_offsets(answer).values():
            if rejected is not None:
                raise rejected
        self._done.clear()

    def close(self) -> None:
        """Commit what is done and leave, so that the others need not wait for us."""
        if not self._joined:
            return
        self._joined = False
        try:
            if self._commit_s is not None:
                self.commit()
            connection = self._connection(self._cluster.deadline())
            request = core.leave(self._membership, connection.version_of(LeaveGroupRequest))
            connection.call(request, LeaveGroupResponse, self._cluster.deadline())
        except ClientError:
            return  # The session runs out by itself.

    def _keep_up(self) -> None:
        """Whatever of joining, heartbeats, commits and looking around is due."""
        now = time.monotonic()
        if self._joined and now >= self._discover_at:
            self._discover_at = now + DISCOVER_S
            if sorted(self._topics()) != self._subscribed or (self._is_leader and self._counts() != self._known):
                self._give_up()
        if not self._joined:
            self._join()
        elif now >= self._heartbeat_at:
            self._heartbeat_at = now + self._heartbeat_s
            check(self._ask(core.heartbeat(self._membership), HeartbeatResponse).error_code)
        if self._commit_s is not None and now >= self._commit_at:
            self._commit_at = now + self._commit_s
            self.commit()

    def _survives(self, error: ClientError) -> bool:
        """Whether a failure only means that we begin again."""
        if isinstance(error, Rejected):
            if error.code in REJOIN:
                self._give_up()
                return True
            if error.code in EXPELLED:
                # What others read by now is theirs to commit.
                self._done.clear()
                self._forget()
                self._membership = Membership(self._membership.group_id)
                return True
        if not error.retriable:
            return False
        self._coordinator = None
        self._cluster.forget()
        self._heartbeat_at = 0.0
        time.sleep(0.1)
        return True

    def _give_up(self) -> None:
        """Before a rebalance everyone says how far it came, and stops reading."""
        try:
            if self._commit_s is not None:
                self.commit()
        except Rejected as error:
            if error.code not in (*REJOIN, *EXPELLED):
                raise
        self._done.clear()
        self._forget()

    def _forget(self) -> None:
        self._joined = False
        self._consumer.assign({})

    def _join(self) -> None:
        self._subscribed = sorted(self._topics())
        request = core.join(self._membership, self._subscribed, self._session_ms, int(REBALANCE_S * MILLISECONDS))
        answer = self._ask(request, JoinGroupResponse, timeout_s=REBALANCE_S)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._membership = self._membership._replace(member_id=answer.member_id)
            request.member_id = answer.member_id
            answer = self._ask(request, JoinGroupResponse, timeout_s=REBALANCE_S)
        check(answer.error_code)
        self._membership = Membership(self._membership.group_id, answer.member_id, answer.generation_id)
        self._is_leader = answer.leader == answer.member_id
        shares: dict[str, list[TopicPartition]] = {}
        if self._is_leader:
            wanted = core.subscriptions(answer)
            self._known = self._counts({TopicName(topic) for each in wanted.values() for topic in each})
            shares = core.share_by_ranges(wanted, self._known)
        synced = self._ask(core.sync(self._membership, shares), SyncGroupResponse)
        check(synced.error_code)
        self._consumer.assign(self._positions(core.assigned(synced.assignment)))
        now = time.monotonic()
        self._joined = True
        self._heartbeat_at = now + self._heartbeat_s
        self._discover_at = now + DISCOVER_S

    def _drop_missing(self) -> None:
        """A topic is deleted: read the others, and let the group share what there is."""
        assigned = {place: self._consumer.position(place) for place in self._consumer.assignment}
        there = self._counts({place.topic for place in assigned})
        self._consumer.assign(
            {place: offset for place, offset in assigned.items() if place.partition < there.get(place.topic, 0)}
        )
        self._discover_at = 0.0

    def _counts(self, topics: Iterable[TopicName] | None = None) -> dict[TopicName, int]:
        """How many partitions the topics have that somebody, or at least we, want to read."""
        wanted = sorted({*(self._known if topics is None else ()), *(self._topics() if topics is None else topics)})
        view = self._cluster.refresh(wanted, self._cluster.deadline())
        return {name: len(view.topics[name].partitions) for name in wanted if view.topics[name].partitions}

    def _positions(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Where the group is; where it has not been yet, as the setting says."""
        if not partitions:
            return {}
        committed = self._groups.offsets_of(self._membership.group_id, partitions)
        found = {place: accepted(offset).offset for place, offset in committed.items()}
        new = [place for place in partitions if place not in found]
        return found | (self._consumer.offsets_at(new, self._offset_reset.value) if new else {})

    def _ask(
        self, request: Request, response: type[R], *, timeout_s: float | None = None, at_most: int | None = None
    ) -> R:
        deadline = self._cluster.deadline(timeout_s)
        return self._connection(deadline).call(request, response, deadline, at_most=at_most)

    def _connection(self, deadline: Deadline) -> Connection:
        if self._coordinator is None:
            self._coordinator = self._groups.coordinator_of(self._membership.group_id, deadline)
        return self._cluster.connection(self._coordinator, deadline)
