from __future__ import annotations

from typing import Any

import pytest

from harness.group_desk import GROUP, QUICK, GroupDesk, cluster, topic_id
from tidelog.groups.offsets.commit import commit_offsets, commit_transaction_offsets, end_transaction
from tidelog.groups.offsets.delete import delete_offsets
from tidelog.groups.offsets.fetch import fetch_offsets, fetch_response, groups_asked, refuse_group
from tidelog.groups.offsets.retention import GROUPS_PER_STEP_MAX, topics_deleted
from tidelog.groups.records import EndTransaction
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, ProducerEpoch, ProducerId
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

HOUR_MS = 3_600_000
ALMOST_A_SESSION_MS = 1_799_000
RETENTION_MS = QUICK.offsets_retention_ms
CHECK_MS = QUICK.offsets_retention_check_interval_ms


def commit(
    desk: GroupDesk,
    offset: int,
    *,
    member_id: str = "",
    generation: int = -1,
    topic: str = "orders",
    partition: int = 0,
    metadata: str | None = "",
    version: int = 9,
    group_id: str = GROUP,
    **more: Any,
) -> int:
    """The error code that a commit of one partition gets."""
    named = {"topic_id": topic_id(topic)} if version >= 10 else {"name": topic}
    partitions = [OffsetCommitRequestPartition(partition, offset, 3, metadata)]
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(**named, partitions=partitions)],
        **more,
    )
    answer = desk.answers[desk.call(commit_offsets, request, version)]
    ((only,),) = [topic.partitions for topic in answer.topics]
    return int(only.error_code)


def transaction_commit(desk: GroupDesk, offset: int, *, producer: int = 7, version: int = 3, **who: Any) -> int:
    request = TxnOffsetCommitRequest(
        group_id=who.pop("group_id", GROUP),
        producer_id=producer,
        topics=[TxnOffsetCommitRequestTopic("orders", [TxnOffsetCommitRequestPartition(0, offset)])],
        **who,
    )
    answer = desk.answers[desk.call(commit_transaction_offsets, request, version)]
    return int(answer.topics[0].partitions[0].error_code)


def end(desk: GroupDesk, committed: bool, producer: int = 7) -> None:
    marker = EndTransaction(ProducerId(producer), ProducerEpoch(0), 0, committed)
    desk.read(lambda shard: end_transaction(shard, marker))


def fetch(desk: GroupDesk, topic: str = "orders", partition: int = 0, *, stable: bool = False, **how: Any) -> Any:
    """What is committed in one partition: the offset, or (offset, error)."""
    version = how.pop("version", 9)
    named = {"topic_id": topic_id(topic)} if version >= 10 else {"name": topic}
    asked = OffsetFetchRequestGroup(
        how.pop("group_id", GROUP), topics=[OffsetFetchRequestTopics(**named, partition_indexes=[partition])]
    )
    group = desk.read(lambda shard: fetch_offsets(shard, asked, version, require_stable=stable))
    ((only,),) = [each.partitions for each in group.topics]
    return (only.committed_offset, only.error_code) if only.error_code else only.committed_offset


def fetch_all(desk: GroupDesk, version: int = 9, group_id: str = GROUP) -> dict[str, dict[int, int]]:
    asked = OffsetFetchRequestGroup(group_id, topics=None)
    group = desk.read(lambda shard: fetch_offsets(shard, asked, version, require_stable=False))
    return {
        topic.name: {each.partition_index: each.committed_offset for each in topic.partitions} for topic in group.topics
    }


def delete(desk: GroupDesk, topic: str = "orders", partition: int = 0, group_id: str = GROUP) -> tuple[int, list[int]]:
    request = OffsetDeleteRequest(
        group_id, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(partition)])]
    )
    answer = desk.answers[desk.call(delete_offsets, request, 0)]
    return answer.error_code, [each.error_code for topic in answer.topics for each in topic.partitions]


@pytest.mark.req("K6", "K11", "K10")
def test_a_committed_offset_is_what_is_fetched_also_after_a_reload() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()

    assert commit(desk, 42, member_id=member, generation=1, metadata="note") == ErrorCode.NONE
    desk.reload()

    assert fetch(desk) == 42
    assert fetch(desk, partition=1) == -1
    committed = desk.shard.offsets.get(GROUP, "orders", 0)
    assert committed is not None
    assert (committed.leader_epoch, committed.metadata, committed.commit_timestamp_ms) == (3, "note", desk.now_ms)


@pytest.mark.req("K8")
def test_groups_do_not_know_each_others_offsets() -> None:
    desk = GroupDesk()

    commit(desk, 1, group_id="a"), commit(desk, 2, group_id="b")

    assert (fetch(desk, group_id="a"), fetch(desk, group_id="b"), fetch(desk, group_id="c")) == (1, 2, -1)


def test_who_is_no_member_commits_to_a_group_that_has_none() -> None:
    desk = GroupDesk()

    assert commit(desk, 42) == ErrorCode.NONE

    assert desk.shard.groups[GROUP].is_simple


def test_who_is_no_member_may_not_commit_to_a_group_that_has_members() -> None:
    desk = GroupDesk()
    desk.stable_group()

    assert commit(desk, 42) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("version", "expected"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_an_unknown_group_may_not_commit(version: int, expected: ErrorCode) -> None:
    desk = GroupDesk()

    assert commit(desk, 42, member_id="nobody", generation=1, version=version) == expected
    assert not desk.shard.groups


@pytest.mark.parametrize("generation", [0, 2])
def test_a_commit_of_another_generation_is_refused(generation: int) -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()

    assert commit(desk, 42, member_id=member, generation=generation) == ErrorCode.ILLEGAL_GENERATION
    assert fetch(desk) == -1


def test_a_commit_of_an_unknown_member_is_refused() -> None:
    desk = GroupDesk()
    desk.stable_group()

    assert commit(desk, 42, member_id="nobody", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_of_a_fenced_instance_is_refused() -> None:
    desk = GroupDesk()
    before = desk.answers[desk.join(instance_id="shelf")].member_id
    desk.sync(before, 1, {}, instance_id="shelf")
    desk.join(instance_id="shelf")

    refused = commit(desk, 42, member_id=before, generation=1, group_instance_id="shelf")

    assert refused == ErrorCode.FENCED_INSTANCE_ID


def test_members_may_commit_until_they_have_joined_again_but_not_before_they_know_their_part() -> None:
    desk = GroupDesk()
    first, second = desk.stable_group(2)
    desk.join(first)

    assert commit(desk, 42, member_id=second, generation=2) == ErrorCode.NONE
    desk.join(second)

    assert commit(desk, 43, member_id=second, generation=3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert fetch(desk) == 42


def test_a_commit_keeps_a_session() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()

    for _ in range(3):
        desk.pass_time(9_000)
        assert commit(desk, 42, member_id=member, generation=1) == ErrorCode.NONE


def test_metadata_that_is_too_large_is_refused() -> None:
    desk = GroupDesk()

    assert commit(desk, 42, metadata="x" * 4096) == ErrorCode.NONE
    assert commit(desk, 43, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(desk, 44, metadata=None) == ErrorCode.NONE


def test_topics_and_partitions_that_do_not_exist_are_refused() -> None:
    desk = GroupDesk()

    assert commit(desk, 1, topic="none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(desk, 1, partition=4) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(desk, 1, topic="none", version=10) == ErrorCode.UNKNOWN_TOPIC_ID
    assert commit(desk, 1, partition=4, version=10) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_may_be_named_by_their_id() -> None:
    desk = GroupDesk()

    assert commit(desk, 42, version=10) == ErrorCode.NONE

    assert fetch(desk, version=9) == fetch(desk, version=10) == 42
    assert fetch(desk, topic="none", version=10) == (-1, ErrorCode.UNKNOWN_TOPIC_ID)


def test_an_offset_of_an_earlier_topic_of_the_same_name_is_not_given_to_who_asks_by_id() -> None:
    desk = GroupDesk()
    commit(desk, 42, version=10)
    image = cluster({"orders": 1})
    (topic,) = image.topics_by_name.values()
    other = type(topic)(topic.name, topic_id("made again"), topic.partitions)
    desk.shard.metadata_changed(type(image)(topics_by_name={topic.name: other}, topics_by_id={other.topic_id: other}))

    asked = OffsetFetchRequestGroup(
        GROUP, topics=[OffsetFetchRequestTopics(topic_id=other.topic_id, partition_indexes=[0])]
    )
    group = desk.read(lambda shard: fetch_offsets(shard, asked, 10, require_stable=False))

    assert group.topics[0].partitions[0].committed_offset == -1
    assert fetch(desk, version=9) == 42


def test_all_offsets_of_a_group_can_be_asked_for() -> None:
    desk = GroupDesk()
    commit(desk, 1), commit(desk, 2, partition=1), commit(desk, 3, topic="prices")

    assert fetch_all(desk) == {"orders": {0: 1, 1: 2}, "prices": {0: 3}}
    assert fetch_all(desk, group_id="none") == {}


def test_by_id_only_topics_that_exist_are_listed() -> None:
    desk = GroupDesk()
    commit(desk, 1), commit(desk, 3, topic="prices")
    desk.shard.metadata_changed(cluster({"prices": 1}))

    asked = OffsetFetchRequestGroup(GROUP, topics=None)
    group = desk.read(lambda shard: fetch_offsets(shard, asked, 10, require_stable=False))

    assert [topic.topic_id for topic in group.topics] == [topic_id("prices")]


def test_old_and_new_requests_ask_the_same() -> None:
    old = OffsetFetchRequest(group_id=GROUP, topics=[OffsetFetchRequestTopic("orders", [0])])
    new = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(GROUP, topics=[OffsetFetchRequestTopics("orders", ZERO_UUID, [0])])]
    )

    assert groups_asked(old, 7) == groups_asked(new, 8)
    assert groups_asked(OffsetFetchRequest(group_id=GROUP, topics=None), 7)[0].topics is None


def test_the_answer_has_the_form_of_its_version() -> None:
    desk = GroupDesk()
    commit(desk, 42)
    request = OffsetFetchRequest(group_id=GROUP, topics=[OffsetFetchRequestTopic("orders", [0])])
    (asked,) = groups_asked(request, 7)
    part = desk.read(lambda shard: fetch_offsets(shard, asked, 7, require_stable=False))
    refused = refuse_group(asked, ErrorCode.NOT_COORDINATOR)

    assert fetch_response(request, [part], 8).groups == [part]
    assert fetch_response(request, [part], 7).topics[0].partitions[0].committed_offset == 42
    assert fetch_response(request, [refused], 8).groups[0].error_code == ErrorCode.NOT_COORDINATOR
    assert fetch_response(request, [refused], 7).error_code == ErrorCode.NOT_COORDINATOR
    oldest = fetch_response(request, [refused], 1)
    assert oldest.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_offsets_of_topics_that_nobody_reads_can_be_deleted() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group(topics=["orders"])
    commit(desk, 1, member_id=member, generation=1), commit(desk, 2, topic="prices", member_id=member, generation=1)

    assert delete(desk, "orders") == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    assert delete(desk, "prices") == (0, [0])
    assert delete(desk, "orders", 3) == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    assert delete(desk, "prices", 1) == (0, [0])
    assert delete(desk, "never") == delete(desk, "prices", 2) == (0, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])

    assert fetch_all(desk) == {"orders": {0: 1}}
    desk.reload()
    assert fetch_all(desk) == {"orders": {0: 1}}


def test_offsets_of_a_group_that_is_empty_can_all_be_deleted() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()
    commit(desk, 1, member_id=member, generation=1)
    desk.leave(member)

    assert delete(desk) == (0, [0])
    assert fetch_all(desk) == {}


def test_offsets_of_groups_that_are_unknown_or_of_another_kind_cannot_be_deleted() -> None:
    desk = GroupDesk()
    desk.stable_group(protocol_type="connect")

    assert delete(desk) == (ErrorCode.NON_EMPTY_GROUP, [])
    assert delete(desk, group_id="none") == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert delete(desk, group_id="") == (ErrorCode.INVALID_GROUP_ID, [])


def test_offsets_of_a_transaction_count_when_it_is_committed() -> None:
    desk = GroupDesk()
    commit(desk, 1)

    assert transaction_commit(desk, 42) == ErrorCode.NONE
    assert fetch(desk) == 1
    assert fetch(desk, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    desk.reload()
    assert fetch(desk, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    end(desk, committed=True)

    assert fetch(desk) == fetch(desk, stable=True) == 42


def test_offsets_of_a_transaction_that_is_aborted_never_count() -> None:
    desk = GroupDesk()
    commit(desk, 1)
    transaction_commit(desk, 42)

    end(desk, committed=False)

    assert fetch(desk) == fetch(desk, stable=True) == 1
    desk.reload()
    assert fetch(desk) == 1


def test_of_two_commits_the_later_counts_even_when_the_earlier_comes_to_count_later() -> None:
    desk = GroupDesk()
    transaction_commit(desk, 42)
    commit(desk, 50)

    end(desk, committed=True)

    assert fetch(desk) == 50


def test_transactions_of_two_producers_end_each_for_itself() -> None:
    desk = GroupDesk()
    transaction_commit(desk, 42, producer=7)
    transaction_commit(desk, 43, producer=8)

    end(desk, committed=True, producer=7)
    assert fetch(desk) == 42
    assert fetch(desk, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    end(desk, committed=True, producer=8)

    assert fetch(desk, stable=True) == 43


def test_the_end_of_a_transaction_without_offsets_changes_nothing() -> None:
    desk = GroupDesk()
    commit(desk, 1)

    end(desk, committed=True)

    assert fetch(desk) == 1


def test_a_deleted_offset_takes_with_it_what_a_transaction_left_pending() -> None:
    desk = GroupDesk()
    transaction_commit(desk, 42)

    assert delete(desk) == (0, [0])
    end(desk, committed=True)

    assert fetch(desk) == -1
    assert not desk.shard.offsets.pending and not desk.shard.offsets.open and not desk.shard.offsets.groups_by_topic


def test_a_transaction_is_fenced_by_the_generation_of_the_member_that_runs_it() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()

    assert transaction_commit(desk, 1, member_id=member, generation_id=0) == ErrorCode.ILLEGAL_GENERATION
    assert transaction_commit(desk, 1, member_id="nobody", generation_id=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert transaction_commit(desk, 1, member_id=member, generation_id=1) == ErrorCode.NONE
    assert transaction_commit(desk, 1, version=2) == ErrorCode.NONE
    assert transaction_commit(desk, 1, group_id="none", generation_id=4) == ErrorCode.ILLEGAL_GENERATION
    assert transaction_commit(desk, 1, group_id="") == ErrorCode.INVALID_GROUP_ID


def test_offsets_of_a_simple_group_expire_each_after_its_own_commit() -> None:
    desk = GroupDesk()
    commit(desk, 1)
    desk.pass_time(HOUR_MS)
    commit(desk, 2, partition=1)

    desk.pass_time(RETENTION_MS - HOUR_MS + CHECK_MS)
    assert fetch_all(desk) == {"orders": {1: 2}}
    desk.pass_time(HOUR_MS)

    assert fetch_all(desk) == {}
    assert not desk.shard.groups
    desk.reload()
    assert not desk.shard.groups


def test_offsets_of_a_group_expire_when_it_is_empty_for_long() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group(session_timeout_ms=1_800_000)
    commit(desk, 1, member_id=member, generation=1)
    for _ in range(RETENTION_MS // ALMOST_A_SESSION_MS + 2):
        desk.pass_time(ALMOST_A_SESSION_MS)
        desk.heartbeat(member, 1)
    assert fetch(desk) == 1

    desk.leave(member)
    desk.pass_time(RETENTION_MS - CHECK_MS)
    desk.reload()
    assert fetch(desk) == 1
    desk.pass_time(2 * CHECK_MS)

    assert fetch(desk) == -1
    assert not desk.shard.groups


def test_a_stable_group_loses_offsets_of_topics_that_it_no_longer_reads() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group(topics=["orders"], session_timeout_ms=1_800_000)
    commit(desk, 1, member_id=member, generation=1), commit(desk, 2, topic="prices", member_id=member, generation=1)

    for _ in range(RETENTION_MS // ALMOST_A_SESSION_MS + 2):
        desk.pass_time(ALMOST_A_SESSION_MS)
        desk.heartbeat(member, 1)

    assert fetch_all(desk) == {"orders": {0: 1}}


def test_a_retention_that_the_client_chose_counts_for_its_offset() -> None:
    desk = GroupDesk()
    commit(desk, 1, version=4, retention_time_ms=HOUR_MS)
    desk.reload()

    desk.pass_time(HOUR_MS - CHECK_MS)
    assert fetch(desk) == 1
    desk.pass_time(2 * CHECK_MS)

    assert fetch(desk) == -1


def test_an_offset_that_a_transaction_may_move_does_not_expire() -> None:
    desk = GroupDesk()
    commit(desk, 1)
    transaction_commit(desk, 2)

    desk.pass_time(RETENTION_MS + 2 * CHECK_MS)

    assert fetch(desk) == 1


def test_an_empty_group_without_offsets_is_forgotten_at_the_next_sweep() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()
    desk.leave(member)

    desk.pass_time(CHECK_MS)

    assert not desk.shard.groups


def test_a_sweep_over_many_groups_is_done_in_steps() -> None:
    desk = GroupDesk()
    groups = GROUPS_PER_STEP_MAX * 2 + 1
    for number in range(groups):
        commit(desk, 1, group_id=f"group {number}")

    desk.pass_time(RETENTION_MS + CHECK_MS)

    assert not desk.shard.groups
    assert max(len(batch) for batch in desk.journal.batches) == GROUPS_PER_STEP_MAX * 2


@pytest.mark.req("L2")
def test_when_a_topic_is_deleted_all_offsets_in_it_go() -> None:
    desk = GroupDesk()
    commit(desk, 1, group_id="a"), commit(desk, 2, group_id="a", topic="prices"), commit(desk, 3, group_id="b")
    transaction_commit(desk, 4)

    desk.submit(lambda shard: topics_deleted(shard, ["orders"]))
    end(desk, committed=True)

    assert (fetch_all(desk, group_id="a"), fetch_all(desk, group_id="b")) == ({"prices": {0: 2}}, {})
    assert fetch(desk) == -1
    assert set(desk.shard.offsets.groups_by_topic) == {"prices"}


def test_a_commit_of_more_partitions_than_a_batch_holds_is_written_in_several() -> None:
    desk = GroupDesk(topics={"wide": 10_001})
    request = OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic("wide", partitions=[OffsetCommitRequestPartition(i, i) for i in range(10_001)])
        ],
    )

    desk.call(commit_offsets, request, 9)

    assert len(fetch_all(desk)["wide"]) == 10_001
