"""Commits that take the short way, beside the same commits that do not: the same bytes to clients and in the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.commit_broker import CommitBroker
from harness.group_desk import subscription, topic_id
from tidelog.broker.call import Call
from tidelog.broker.dispatch import Handler
from tidelog.groups.calls import Caller
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.offsets.commit import commit_transaction_offsets
from tidelog.groups.records import EndTransaction
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ProducerEpoch, ProducerId
from tidelog.wire.frames import LENGTH_BYTES, decode_response, encode_request
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.wire.schema import Request, Response

TOPICS = {"orders": 4, "prices": 2}
OTHER_TOPICS = ({"orders": 4, "prices": 2}, {"orders": 6, "prices": 2}, {"orders": 4})
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 5, 3, 1
INSTANCE_VERSION, TOPIC_ID_VERSION = 7, 10
PRODUCER = (ProducerId(7), ProducerEpoch(0))

ResponseT = TypeVar("ResponseT", bound=Response)


class Wording(NamedTuple):
    """All of a commit but its offsets."""

    version: int
    group: str
    generation: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    client_id: str | None
    # Topic -> partition and metadata.
    topics: tuple[tuple[str, tuple[tuple[int, str | None], ...]], ...]

    def frame(self, correlation_id: int, offset: int) -> bytes:
        topics = [
            OffsetCommitRequestTopic(
                name,
                topic_id(name),
                [
                    OffsetCommitRequestPartition(index, offset + place, 5, metadata)
                    for place, (index, metadata) in enumerate(partitions)
                ],
            )
            for name, partitions in self.topics
        ]
        instance_id = self.instance_id if self.version >= INSTANCE_VERSION else None
        request = OffsetCommitRequest(
            self.group, self.generation, self.member_id, instance_id, self.retention_ms, topics
        )
        return encode_request(request, self.version, correlation_id, self.client_id)


class Pair:
    """Two brokers that are told the same; what they say and write is compared at every turn."""

    def __init__(self) -> None:
        self.quick = CommitBroker(TOPICS, short_way=True)
        self.usual = CommitBroker(TOPICS, short_way=False)
        self.both = (self.quick, self.usual)
        self.members = {"simple": ""}
        self._correlation_id = 0
        for group, instance_id in (("classic", None), ("static", "shelf")):
            joined = self.join(group, instance_id)
            given = [SyncGroupRequestAssignment(joined.member_id, b"all")]
            sync = SyncGroupRequest(group, joined.generation_id, joined.member_id, instance_id, assignments=given)
            assert self.ask(sync, SYNC_VERSION, SyncGroupResponse).error_code == ErrorCode.NONE
            self.members[group] = joined.member_id
        beat = ConsumerGroupHeartbeatRequest(
            "consumer", "mine", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["orders"], topic_partitions=[]
        )
        assert self.ask(beat, HEARTBEAT_VERSION, ConsumerGroupHeartbeatResponse).member_epoch == 1
        self.members["consumer"] = "mine"

    def next_id(self) -> int:
        self._correlation_id += 1
        return self._correlation_id

    def join(self, group: str, instance_id: str | None) -> JoinGroupResponse:
        # Before v4 nobody is sent back for a member id.
        version = JOIN_VERSION if instance_id else 3
        return self.ask(self._join(group, instance_id), version, JoinGroupResponse)

    @staticmethod
    def _join(group: str, instance_id: str | None) -> JoinGroupRequest:
        protocols = [JoinGroupRequestProtocol("range", subscription("orders"))]
        return JoinGroupRequest(group, 10_000, 10_000, "", instance_id, "consumer", protocols)

    def ask(self, request: Request, version: int, answer: type[ResponseT]) -> ResponseT:
        self.send(encode_request(request, version, self.next_id(), "raw"))
        return decode_response(answer, version, memoryview(self.settle())[LENGTH_BYTES:])[1]

    def send(self, data: bytes) -> None:
        for broker in self.both:
            broker.send(data)

    def settle(self) -> bytes:
        answers = [broker.settle() for broker in self.both]
        assert answers[0] == answers[1]
        assert self.quick.written() == self.usual.written()
        return answers[0]

    def check(self) -> None:
        self.settle()
        for broker in self.both:
            assert not broker.closed
        quick, usual = ([host.shard for host in broker.groups.hosts] for broker in self.both)
        for one, other in zip(quick, usual, strict=True):
            assert one.offsets.by_group == other.offsets.by_group
            assert one.offsets.open == other.offsets.open
            assert sessions(one) == sessions(other)
            assert one.next_deadline_ms() == other.next_deadline_ms()

    # What may happen between commits.

    def disturb(self, group: str) -> None:
        """Somebody else joins, and so all must join again."""
        self.send(encode_request(self._join(group, "other"), JOIN_VERSION, self.next_id(), "raw"))

    def pass_time(self, milliseconds: int) -> None:
        for broker in self.both:
            broker.now_ms += milliseconds

    def change_topics(self, topics: dict[str, int]) -> None:
        for broker in self.both:
            broker.change_topics(topics)

    def move(self) -> None:
        """The leadership goes, with whatever is under way, and comes back."""
        for broker in self.both:
            broker.resign()
        self.settle()
        for broker in self.both:
            broker.lead()

    def transaction(self, *, committed: bool) -> None:
        partition = TxnOffsetCommitRequestPartition(1, 77, 5, "")
        request = TxnOffsetCommitRequest(
            "t", "simple", *PRODUCER, topics=[TxnOffsetCommitRequestTopic("orders", [partition])]
        )
        caller = Caller(_Deaf(), 3)
        for broker in self.both:
            broker.groups.submit(
                "simple", lambda shard, now_ms: commit_transaction_offsets(shard, request, caller, now_ms), _refused
            )
            broker.groups.end_transaction(0, EndTransaction(*PRODUCER, 0, committed), lambda _: None)


def sessions(shard: GroupShard) -> dict[str, int]:
    """Until when each member of a classic group is believed to live."""
    return {
        member.member_id: member.session.deadline_ms
        for group in shard.groups.values()
        if isinstance(group, ClassicGroup)
        for member in group.members.values()
    }


class _Deaf:
    def answer(self, response: Response) -> None: ...


def _refused(error: ErrorCode) -> None:
    raise AssertionError(error)


@contextmanager
def pair() -> Iterator[Pair]:
    brokers = Pair()
    try:
        yield brokers
    finally:
        for broker in brokers.both:
            broker.close()


METADATA = st.sampled_from(["", "", None, "somewhere", "thé", "x" * 20, "x" * 21])
PARTITIONS = st.lists(st.tuples(st.sampled_from([0, 0, 1, 3, 9]), METADATA), min_size=0, max_size=3).map(tuple)
NAMED = st.lists(
    st.tuples(st.sampled_from(["orders", "orders", "prices", "missing"]), PARTITIONS), min_size=0, max_size=3
).map(tuple)


@st.composite
def wordings(draw: st.DrawFn, members: dict[str, str]) -> Wording:
    group = draw(st.sampled_from(sorted(members)))
    is_right = draw(st.integers(0, 3)) > 0
    generation = -1 if group == "simple" else 1
    instance_id = "shelf" if group == "static" else None
    member_id = members[group]
    if not is_right:
        generation = draw(st.sampled_from([generation, -1, 0, 9]))
        member_id = draw(st.sampled_from([member_id, "", "stranger"]))
        instance_id = draw(st.sampled_from([instance_id, "shelf", "attic", None]))
    version = draw(st.sampled_from([9, 10] if group == "consumer" and is_right else range(2, 11)))
    return Wording(
        version,
        group,
        generation,
        member_id,
        instance_id,
        draw(st.sampled_from([-1, -1, 60_000])),
        draw(st.sampled_from(["raw", "", None])),
        draw(NAMED),
    )


DEEDS = st.sampled_from(["settle", "time", "join", "topics", "move", "commit a transaction", "abort a transaction"])


@pytest.mark.req("K11")
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_commits_are_answered_and_written_the_same_on_the_short_way(data: st.DataObject) -> None:
    with pair() as brokers:
        known = data.draw(st.lists(wordings(brokers.members), min_size=1, max_size=3))
        for _ in range(data.draw(st.integers(1, 8))):
            sent = data.draw(st.lists(st.tuples(st.sampled_from(known), st.integers(0, 2**62)), max_size=12))
            brokers.send(b"".join(wording.frame(brokers.next_id(), offset) for wording, offset in sent))
            match data.draw(DEEDS):
                case "settle":
                    brokers.settle()
                case "time":
                    brokers.pass_time(data.draw(st.integers(0, 20_000)))
                case "join":
                    brokers.disturb(data.draw(st.sampled_from(["classic", "static"])))
                case "topics":
                    brokers.change_topics(data.draw(st.sampled_from(OTHER_TOPICS)))
                case "move":
                    brokers.move()
                case "commit a transaction":
                    brokers.transaction(committed=True)
                case _:
                    brokers.transaction(committed=False)
        brokers.check()


def committed(brokers: Pair, wording: Wording, times: int) -> list[int]:
    """The error codes that the first partition gets when the same is committed again and again, all in one piece."""
    brokers.send(b"".join(wording.frame(brokers.next_id(), number) for number in range(times)))
    answers = memoryview(brokers.settle())
    errors: list[int] = []
    while answers:
        end = LENGTH_BYTES + int.from_bytes(answers[:LENGTH_BYTES])
        _, answer = decode_response(OffsetCommitResponse, wording.version, answers[LENGTH_BYTES:end])
        errors.append(answer.topics[0].partitions[0].error_code)
        answers = answers[end:]
    return errors


@pytest.mark.parametrize(
    ("group", "version"),
    [(group, version) for group in ("simple", "classic") for version in range(2, 11)]
    + [("static", 7), ("static", 10), ("consumer", 9), ("consumer", 10)],
)
def test_all_but_the_first_of_a_form_take_the_short_way(group: str, version: int) -> None:
    with pair() as brokers:
        who: tuple[str, int, str, str | None] = ("simple", -1, "", None)
        if group != "simple":
            who = (group, 1, brokers.members[group], "shelf" if group == "static" else None)
        places = (("orders", ((0, ""), (3, "here"))), ("prices", ((1, None),)))
        wording = Wording(version, *who, 60_000, "raw", places)

        assert committed(brokers, wording, 1) == [ErrorCode.NONE]
        brokers.pass_time(5_000)
        assert committed(brokers, wording, 8) == [ErrorCode.NONE] * 8

        assert brokers.quick.repeats.taken == 8
        brokers.check()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"topics": (("missing", ((0, ""),)),)}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topics": (("orders", ((9, ""),)),)}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topics": (("orders", ((0, "x" * 21),)),)}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_what_is_refused_never_takes_the_short_way(change: dict[str, Any], error: ErrorCode) -> None:
    with pair() as brokers:
        good = Wording(9, "classic", 1, brokers.members["classic"], None, -1, "raw", (("orders", ((0, ""),)),))

        assert committed(brokers, good._replace(**change), 4) == [error] * 4

        assert brokers.quick.repeats.taken == 0
        assert committed(brokers, good, 4) == [ErrorCode.NONE] * 4
        assert brokers.quick.repeats.taken == 3


def test_what_was_right_before_is_looked_at_again_when_the_group_or_the_topics_change() -> None:
    with pair() as brokers:
        static = Wording(9, "static", 1, brokers.members["static"], "shelf", -1, "raw", (("prices", ((1, ""),)),))
        assert committed(brokers, static, 3) == [ErrorCode.NONE] * 3

        brokers.change_topics({"orders": 4})
        assert committed(brokers, static, 2) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
        brokers.change_topics(TOPICS)
        assert committed(brokers, static, 2) == [ErrorCode.NONE] * 2
        # The process comes back under another member id: the old one is fenced.
        brokers.join("static", "shelf")
        assert committed(brokers, static, 2) == [ErrorCode.FENCED_INSTANCE_ID] * 2

        assert brokers.quick.repeats.taken == 4


def test_a_handler_that_is_wrapped_sees_every_commit() -> None:
    with pair() as brokers:
        simple = Wording(8, "simple", -1, "", None, -1, "raw", (("orders", ((2, ""),)),))
        seen: list[Request] = []

        def wrap(_: type[Request], handler: Handler) -> Handler:
            def noted(call: Call, request: Request) -> Response | None:
                seen.append(request)
                return handler(call, request)

            return noted

        committed(brokers, simple, 3)
        brokers.quick.dispatch.route_through(wrap)
        committed(brokers, simple, 5)
        brokers.quick.dispatch.route_through(lambda _, handler: handler)
        committed(brokers, simple, 3)

        assert len(seen) == 5
        assert brokers.quick.repeats.taken == 2 + 2


def test_commits_that_are_lost_with_the_leadership_are_refused_alike() -> None:
    with pair() as brokers:
        simple = Wording(7, "simple", -1, "", None, -1, "raw", (("orders", ((2, ""),)),))
        committed(brokers, simple, 2)
        brokers.send(b"".join(simple.frame(brokers.next_id(), 50 + number) for number in range(3)))
        for broker in brokers.both:
            broker.resign()

        answers = brokers.settle()

        assert answers.count(int(ErrorCode.NOT_COORDINATOR).to_bytes(2)) >= 3
        assert brokers.quick.repeats.taken == 4
        assert committed(brokers, simple, 2) == [ErrorCode.NOT_COORDINATOR] * 2


def test_commits_are_refused_alike_while_too_few_replicas_are_in_sync() -> None:
    with pair() as brokers:
        simple = Wording(7, "simple", -1, "", None, -1, "raw", (("orders", ((2, ""),)),))
        committed(brokers, simple, 2)
        for broker in brokers.both:
            broker.leader.in_sync.isr = ()

        assert committed(brokers, simple, 3) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3

        brokers.check()
