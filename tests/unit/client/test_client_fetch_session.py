"""The client's side of a fetch session (KIP-227)."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.client.core.fetch_session import EPOCH_MAX, FetchSession, Limits, Wanted
from tidelog.client.core.metadata import Topic
from tidelog.client.errors import Rejected
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse

A = TopicName("a")
A0, A1 = (TopicPartition(A, PartitionIndex(index)) for index in (0, 1))
TOPICS = {A: Topic(A, UUID(int=1))}
LIMITS = Limits(wait_ms=500, bytes_min=1, bytes_max=1000, read_committed=True)


def want(offset: int) -> Wanted:
    return Wanted(Offset(offset), LeaderEpoch(3), 100)


def asked(request: FetchRequest) -> dict[int, int]:
    return {part.partition: part.fetch_offset for topic in request.topics for part in topic.partitions}


def forgotten(request: FetchRequest) -> list[int]:
    return [part for topic in request.forgotten_topics_data for part in topic.partitions]


def test_the_first_request_asks_for_everything_and_for_a_session() -> None:
    request = FetchSession().request({A0: want(5), A1: want(6)}, TOPICS, LIMITS)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert asked(request) == {0: 5, 1: 6}
    assert request.topics[0].topic_id == UUID(int=1)
    assert request.isolation_level == 1
    assert request.topics[0].partitions[0].current_leader_epoch == 3


def test_later_requests_hold_only_what_changed() -> None:
    session = FetchSession()
    session.request({A0: want(5), A1: want(6)}, TOPICS, LIMITS)
    assert session.answered(FetchResponse(session_id=44))
    request = session.request({A0: want(5), A1: want(9)}, TOPICS, LIMITS)
    assert (request.session_id, request.session_epoch) == (44, 1)
    assert asked(request) == {1: 9}
    assert session.answered(FetchResponse(session_id=44))
    request = session.request({A1: want(9)}, TOPICS, LIMITS)
    assert (request.session_epoch, asked(request), forgotten(request)) == (2, {}, [0])


def test_a_broker_without_room_for_a_session_is_asked_for_everything_each_time() -> None:
    session = FetchSession()
    for offset in (5, 6):
        request = session.request({A0: want(5), A1: want(offset)}, TOPICS, LIMITS)
        assert (request.session_id, request.session_epoch, len(asked(request))) == (0, 0, 2)
        assert session.answered(FetchResponse(session_id=0))


def test_a_session_that_the_broker_lost_begins_anew() -> None:
    session = FetchSession()
    session.request({A0: want(5)}, TOPICS, LIMITS)
    session.answered(FetchResponse(session_id=44))
    session.request({A0: want(5)}, TOPICS, LIMITS)
    assert not session.answered(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
    request = session.request({A0: want(5)}, TOPICS, LIMITS)
    assert (request.session_id, request.session_epoch, asked(request)) == (0, 0, {0: 5})


def test_a_topic_that_was_created_anew_is_not_asked_for_under_its_old_id() -> None:
    session = FetchSession()
    session.request({A0: want(5)}, TOPICS, LIMITS)
    session.answered(FetchResponse(session_id=44))
    request = session.request({A0: want(0)}, {A: Topic(A, UUID(int=2))}, LIMITS)
    assert (request.session_id, request.topics[0].topic_id) == (0, UUID(int=2))


def test_the_epoch_begins_again_at_one() -> None:
    session = FetchSession()
    session.request({A0: want(5)}, TOPICS, LIMITS)
    session.answered(FetchResponse(session_id=44))
    session._epoch = EPOCH_MAX
    session.answered(FetchResponse(session_id=44))
    assert session.request({A0: want(5)}, TOPICS, LIMITS).session_epoch == 1


def test_without_sessions_every_request_is_whole() -> None:
    session = FetchSession(enabled=False)
    for _ in range(2):
        request = session.request({A0: want(5)}, TOPICS, LIMITS)
        assert (request.session_id, request.session_epoch, asked(request)) == (0, -1, {0: 5})
        assert session.answered(FetchResponse(session_id=0))


def test_any_other_error_of_the_whole_answer_is_raised() -> None:
    with pytest.raises(Rejected, match="Not authorized"):
        FetchSession().answered(FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


def test_topics_in_an_answer_are_known_by_id() -> None:
    session = FetchSession()
    session.request({A0: want(5)}, TOPICS, LIMITS)
    assert session.name_of("", UUID(int=1)) == "a"
    assert session.name_of("b", UUID(int=0)) == "b"
    assert session.name_of("", UUID(int=9)) == ""
    assert session.newest_version() is None


def test_an_old_broker_is_asked_by_name() -> None:
    session = FetchSession()
    session.request({A0: want(5)}, {A: Topic(A)}, LIMITS)
    assert session.newest_version() == 12
