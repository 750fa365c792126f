"""The blocking client for consumer groups: list, describe, delete; read, set and delete their offsets; their lag.

Each group is asked for at its coordinator, which is looked up again when it has moved. Requests and answers are made
and read in `core/groups.py`. Being a member of one is in `core/classic_member.py` and `core/consumer_member.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.client.admin import list_offsets
from tidelog.client.cluster import Cluster
from tidelog.client.core import groups as core
from tidelog.client.core.described import EARLIEST, LATEST
from tidelog.client.core.groups import CommittedOffset, GroupDescription, GroupListing
from tidelog.client.core.metadata import Node
from tidelog.client.deadline import Deadline
from tidelog.client.errors import Rejected, UnsupportedByBroker, check
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, TopicPartition
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.offset_commit import OffsetCommitResponse
from tidelog.wire.messages.offset_delete import OffsetDeleteResponse
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

T = TypeVar("T")

# What a broker answers that is not, or not yet, the coordinator.
MOVED: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


@dataclass(frozen=True, slots=True)
class Lag:
    """A partition as a group sees it. What cannot be known (no commit, no leader) is None."""

    committed: CommittedOffset | None
    log_start: Offset | None
    log_end: Offset | None

    @property
    def records(self) -> int | None:
        """How many records there still are for the group: what was deleted before it was read is not waiting any more.

        Never negative: a topic that was made again may end before the offset.
        """
        if self.committed is None or self.log_end is None:
            return None
        begin = max(self.committed.offset, self.log_start or 0)
        return max(0, self.log_end - begin)


class Groups:
    """Asks a cluster about its consumer groups and changes them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators: dict[str, Node] = {}

    def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """The groups of all brokers by id; all, or those in some states and of some types."""
        request = ListGroupsRequest(list(states), list(types))

        def ask(deadline: Deadline) -> list[GroupListing]:
            found: dict[str, GroupListing] = {}
            for node in self._cluster.refresh([], deadline).nodes.values():
                answer = self._cluster.call(node, request, ListGroupsResponse, deadline)
                check(answer.error_code)
                found |= {group.id: group for group in core.listed_groups(answer)}
            return [found[group_id] for group_id in sorted(found)]

        return self._cluster.retry(ask)

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | Rejected]:
        """State, coordinator and members of groups."""
        return {group_id: _or_rejected(self._describe, group_id) for group_id in group_ids}

    def offsets_of(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset | Rejected]:
        """The committed offsets of a group, all or of some partitions; those without one are left out.

        `require_stable`: UNSTABLE_OFFSET_COMMIT for one that an open transaction may still move (KIP-447).
        """
        wanted = None if partitions is None else list(partitions)

        def ask(node: Node, deadline: Deadline) -> dict[TopicPartition, CommittedOffset | Rejected]:
            connection = self._cluster.connection(node, deadline)
            version = connection.version_of(OffsetFetchRequest, core.OFFSET_FETCH_BY_NAME)
            request = core.fetch_offsets(group_id, wanted, version, require_stable)
            answer = connection.call(request, OffsetFetchResponse, deadline, at_most=core.OFFSET_FETCH_BY_NAME)
            return core.fetched_offsets(answer)

        return self._at_coordinator(group_id, ask)

    def alter_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, Rejected | None]:
        """Set offsets of a group that has no members."""
        request = core.commit_offsets(group_id, offsets)

        def ask(node: Node, deadline: Deadline) -> dict[TopicPartition, Rejected | None]:
            connection = self._cluster.connection(node, deadline)
            answer = connection.call(request, OffsetCommitResponse, deadline, at_most=core.OFFSET_COMMIT_BY_NAME)
            return _checked(core.committed_offsets(answer))

        return self._at_coordinator(group_id, ask)

    def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Rejected | None]:
        """Delete offsets of topics to which the group is not subscribed."""
        request = core.delete_offsets(group_id, partitions)
        return self._at_coordinator(
            group_id,
            lambda node, deadline: core.deleted_offsets(
                self._cluster.call(node, request, OffsetDeleteResponse, deadline)
            ),
        )

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Rejected | None]:
        """Delete groups that have no members, with all their offsets."""
        return {group_id: _or_rejected(self._delete, group_id) for group_id in group_ids}

    def lags(
        self, offsets: Mapping[TopicPartition, CommittedOffset | Rejected], others: Iterable[TopicPartition] = ()
    ) -> dict[TopicPartition, Lag]:
        """How far behind a group with these offsets is; also for other partitions, which have no offset yet."""
        places = sorted({*offsets, *others})
        begins = self._offsets_at(places, EARLIEST)
        ends = self._offsets_at(places, LATEST)
        lags = {}
        for place in places:
            committed = offsets.get(place)
            known = None if isinstance(committed, Rejected) else committed
            lags[place] = Lag(known, begins.get(place), ends.get(place))
        return lags

    def coordinator_of(self, group_id: str, deadline: Deadline) -> Node:
        """The broker that keeps a group, asked for anew."""
        connection = self._cluster.any_connection(deadline)
        request = core.find_coordinator(group_id, connection.version_of(FindCoordinatorRequest))
        return _accepted(core.found_coordinator(connection.call(request, FindCoordinatorResponse, deadline)))

    def _describe(self, group_id: str) -> GroupDescription:
        def modern(node: Node, deadline: Deadline) -> GroupDescription:
            request = ConsumerGroupDescribeRequest([group_id])
            answer = self._cluster.call(node, request, ConsumerGroupDescribeResponse, deadline)
            return _accepted(core.described_modern(answer, node))

        def classic(node: Node, deadline: Deadline) -> GroupDescription:
            answer = self._cluster.call(node, DescribeGroupsRequest([group_id]), DescribeGroupsResponse, deadline)
            return _accepted(core.described_classic(answer, node))

        try:
            return self._at_coordinator(group_id, modern)
        except UnsupportedByBroker:
            pass
        except Rejected as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
        return self._at_coordinator(group_id, classic)

    def _delete(self, group_id: str) -> None:
        def ask(node: Node, deadline: Deadline) -> None:
            answer = self._cluster.call(node, DeleteGroupsRequest([group_id]), DeleteGroupsResponse, deadline)
            check(answer.results[0].error_code)

        self._at_coordinator(group_id, ask)

    def _offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, Offset]:
        if not partitions:
            return {}
        wanted = dict.fromkeys(partitions, timestamp_ms)
        answers = list_offsets(self._cluster, wanted, False, self._cluster.deadline())
        return {place: answer.offset for place, answer in answers.items() if not isinstance(answer, Rejected)}

    def _at_coordinator(self, group_id: str, ask: Callable[[Node, Deadline], T]) -> T:
        """Ask a group's coordinator, and again where it has moved."""

        def attempt(deadline: Deadline) -> T:
            node = self._coordinators.pop(group_id, None) or self.coordinator_of(group_id, deadline)
            answer = ask(node, deadline)
            self._coordinators[group_id] = node
            return answer

        return self._cluster.retry(attempt)


def _or_rejected(act: Callable[[str], T], group_id: str) -> T | Rejected:
    try:
        return act(group_id)
    except Rejected as error:
        return error


def _accepted(answer: T | Rejected) -> T:
    if isinstance(answer, Rejected):
        raise answer
    return answer


def _checked(answers: dict[TopicPartition, Rejected | None]) -> dict[TopicPartition, Rejected | None]:
    """A coordinator that has moved says so for every partition: the whole request is then made again."""
    for answer in answers.values():
        if answer is not None and answer.code in MOVED:
            raise answer
    return answers
