"""Who may commit and read the offsets of a consumer group: members by their epoch, and late ones what stayed theirs."""

from __future__ import annotations

import pytest

from harness.group_consumer import Consumer, pair, settle
from harness.group_desk import GROUP, GroupDesk
from tidelog.groups.offsets.commit import commit_offsets
from tidelog.groups.offsets.fetch import fetch_offsets
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestGroup


def commit(desk: GroupDesk, member_id: str, epoch: int, version: int = 9, partition: int = 0) -> int:
    partitions = [OffsetCommitRequestPartition(partition, 5)]
    request = OffsetCommitRequest(
        GROUP, epoch, member_id, topics=[OffsetCommitRequestTopic("orders", partitions=partitions)]
    )
    answer = desk.answers[desk.call(commit_offsets, request, version)]
    return int(answer.topics[0].partitions[0].error_code)


def test_members_commit_with_their_epoch() -> None:
    desk = GroupDesk()
    first, _ = pair(desk)

    assert commit(desk, "first", first.epoch) == ErrorCode.NONE
    assert commit(desk, "first", first.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, "first", first.epoch, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(desk, "nobody", first.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(desk, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("restarts", [False, True])
def test_a_member_that_has_not_heard_of_its_new_epoch_commits_what_stayed_its_own(restarts: bool) -> None:
    desk = GroupDesk()
    first, second = pair(desk)
    if restarts:
        desk.reload()
    (kept, *_), (given, *_) = sorted(first.owned["orders"]), sorted(second.owned["orders"])
    before = first.epoch - 1

    assert commit(desk, "first", before, partition=kept) == ErrorCode.NONE
    assert commit(desk, "first", before, partition=given) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, "first", before - 1, partition=kept) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, "second", before, partition=given) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, "first", first.epoch, partition=given) == ErrorCode.NONE, "as it has always been"


def test_what_a_member_got_again_it_has_not_owned_in_between() -> None:
    desk = GroupDesk()
    first = Consumer(desk, "first")
    first.join()
    epoch = first.epoch
    second = Consumer(desk, "second")
    second.join()
    settle(first, second)
    (given, *_) = sorted(second.owned["orders"])
    second.leave()
    settle(first)

    assert given in first.owned["orders"]
    assert commit(desk, "first", epoch, partition=given) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, "first", first.epoch, partition=given) == ErrorCode.NONE


def test_what_is_to_be_given_up_is_committed_until_it_is() -> None:
    desk = GroupDesk()
    first, second = Consumer(desk, "first"), Consumer(desk, "second")
    first.join()
    second.join()
    told = first.send(first.epoch, topic_partitions=first.listed())
    assert told.assignment is not None
    (given, *_) = {0, 1, 2, 3} - set(told.assignment.topic_partitions[0].partitions)

    assert commit(desk, "first", first.epoch, partition=given) == ErrorCode.NONE
    first.follow(told)
    settle(first, second)
    assert commit(desk, "first", first.epoch - 1, partition=given) == ErrorCode.STALE_MEMBER_EPOCH


def test_a_member_that_comes_back_has_owned_nothing_before() -> None:
    desk = GroupDesk()
    first = Consumer(desk, "first", instance_id="one")
    first.join()
    epoch = first.epoch
    Consumer(desk, "second").join()
    first.beat()
    first.leave(-2)
    first.join()

    assert first.epoch > epoch
    assert commit(desk, "first", epoch) == ErrorCode.STALE_MEMBER_EPOCH


def test_members_fetch_with_their_epoch_and_others_without() -> None:
    desk = GroupDesk()
    first, _ = pair(desk)

    def fetch(member_id: str | None, epoch: int) -> int:
        asked = OffsetFetchRequestGroup(GROUP, member_id, epoch, topics=None)
        return int(desk.read(lambda shard: fetch_offsets(shard, asked, 9, require_stable=False)).error_code)

    assert fetch("first", first.epoch) == fetch(None, -1) == ErrorCode.NONE
    assert fetch("first", first.epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
