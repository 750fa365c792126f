"""Conversations about groups whose answers were recorded from Apache Kafka 4.2 (`tests/data/groups`).

Each takes a `Talk` on a group of its own and returns all it heard, so that one broker can be held against another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from harness.group_talk import Talk, name_of, told
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

UNKNOWN_TOPIC = UUID(int=12345)
Conversation = Callable[[Talk], Any]
CONVERSATIONS: dict[str, Conversation] = {}


def conversation(function: Conversation) -> Conversation:
    CONVERSATIONS[function.__name__] = function
    return function


@conversation
def a_newcomer_joins_in_each_version(talk: Talk) -> Any:
    heard = [[version, talk.on(f"{talk.group_id}{version}").joined(version=version)] for version in range(10)]
    answer = talk.join()
    return [heard, answer.member_id.startswith("probe-"), len(answer.member_id), talk.joined(answer.member_id)]


@conversation
def an_unknown_member_joins_in_each_version(talk: Talk) -> Any:
    return [talk.joined("nobody", version) for version in range(10)]


@conversation
def joins_that_make_no_sense(talk: Talk) -> Any:
    wrong: list[dict[str, Any]] = [
        {"session_timeout_ms": 5},
        {"session_timeout_ms": 2**31 - 1},
        {"protocol_type": ""},
        {"protocols": []},
        {"group_id": ""},
    ]
    return [[talk.joined(version=version, **fields) for fields in wrong] for version in (5, 9)]


@conversation
def joins_beside_a_member(talk: Talk) -> Any:
    talk.stable()
    return [talk.joined(protocol_type="connect"), talk.joined(names=["other"]), talk.joined("nobody")]


@conversation
def a_leader_joins_again(talk: Talk) -> Any:
    member_id, generation = talk.stable()
    return [generation, talk.joined(member_id), talk.joined(member_id), talk.joined(member_id, topics=["prices"])]


@conversation
def a_static_member_starts_again(talk: Talk) -> Any:
    before, generation = talk.stable(group_instance_id="i")
    answer = talk.join(group_instance_id="i")
    old = talk.join(group_instance_id="i", version=8)
    return [
        told(answer),
        answer.member_id != before,
        answer.leader == answer.member_id,
        told(old),
        old.leader == old.member_id,
        talk.heartbeat(before, generation, "i"),
        talk.joined(before, group_instance_id="i"),
        talk.sync(before, generation, group_instance_id="i"),
        talk.commit(before, generation, instance_id="i"),
        talk.heartbeat(before, generation),
        talk.heartbeat("nobody", generation, "other"),
        talk.leave((before, "i")),
        talk.leave(("", "i"), ("", "other")),
    ]


@conversation
def a_static_member_starts_again_with_another_protocol(talk: Talk) -> Any:
    talk.stable(group_instance_id="i", names=["range", "second"])
    return talk.joined(group_instance_id="i", names=["second"])


@conversation
def syncs_that_are_refused(talk: Talk) -> Any:
    member_id, generation = talk.stable()
    wrong: list[dict[str, Any]] = [
        {},
        {"generation_id": generation + 1},
        {"generation_id": -1},
        {"member_id": "nobody"},
        {"member_id": ""},
        {"protocol_type": "other"},
        {"protocol_name": "other"},
        {"protocol_name": None},
        {"group_id": "none"},
        {"group_id": ""},
        {"group_instance_id": "i"},
    ]
    return [talk.sync(member_id, generation, **fields) for fields in wrong]


@conversation
def heartbeats_that_are_refused(talk: Talk) -> Any:
    member_id, generation = talk.stable()
    heard = [talk.heartbeat(member_id, generation + offset) for offset in (0, 1, -1, -2)]
    heard += [talk.heartbeat("nobody", generation), talk.heartbeat("", generation)]
    heard += [talk.on("none").heartbeat("nobody", 1), talk.on("").heartbeat("nobody", 1)]
    talk.leave((member_id, None))
    heard += [talk.heartbeat(member_id, generation), talk.sync(member_id, generation)]
    return [heard, talk.joined(member_id)]


@conversation
def members_leave(talk: Talk) -> Any:
    member_id, _ = talk.stable()
    return [
        talk.leave(("nobody", None)),
        talk.leave(("", None)),
        talk.leave(("", "i")),
        talk.leave((member_id, "i")),
        talk.on("none").leave(("nobody", None)),
        talk.on("").leave(("nobody", None)),
        talk.leave((member_id, None), ("nobody", None)),
        talk.leave((member_id, None)),
    ]


@conversation
def members_leave_with_old_versions(talk: Talk) -> Any:
    member_id, _ = talk.stable()
    heard = [talk.leave(("nobody", None), version=2), talk.on("none").leave(("nobody", None), version=1)]
    return [*heard, talk.leave((member_id, None), version=0)]


@conversation
def an_id_that_was_given_out_leaves(talk: Talk) -> Any:
    given = talk.join().member_id
    return [talk.leave((given, None)), talk.joined(given)]


@conversation
def offsets_are_committed_without_being_a_member(talk: Talk) -> Any:
    return [
        talk.commit(),
        talk.fetch(),
        talk.commit("nobody"),
        talk.commit("nobody", 4),
        talk.commit("", 4),
        talk.commit(instance_id="i"),
        talk.on(f"{talk.group_id}-b").commit("nobody", 4, version=8),
        talk.on(f"{talk.group_id}-b").commit("nobody", 4),
        talk.on(f"{talk.group_id}-b").commit("nobody"),
        talk.on("").commit(),
        talk.on("").fetch(),
    ]


@conversation
def a_member_commits(talk: Talk) -> Any:
    member_id, generation = talk.stable()
    heard = [talk.commit(member_id, generation + offset) for offset in (0, 1, -1, -2)]
    heard += [talk.commit("nobody", generation), talk.commit(), talk.commit("", generation)]
    heard += [talk.commit(member_id, generation, metadata=text) for text in ("x" * 4097, "x" * 4096, None)]
    heard += [talk.commit(member_id, generation, topic="none"), talk.commit(member_id, generation, partition=99)]
    heard += [talk.commit(member_id, generation, instance_id="i")]
    found = talk.fetch()
    generation = talk.join(member_id).generation_id
    return [heard, found, talk.commit(member_id, generation), talk.commit(member_id, generation - 1)]


@conversation
def topics_are_named_by_id(talk: Talk) -> Any:
    heard = [
        talk.commit(version=10),
        talk.commit(topic=UNKNOWN_TOPIC, version=10),
        talk.commit(partition=77, version=10),
    ]
    return [heard, talk.fetch(), [_fetch_by_id(talk, topic_id) for topic_id in (None, UNKNOWN_TOPIC)], _all_by_id(talk)]


def _fetch_by_id(talk: Talk, topic_id: UUID | None) -> Any:
    topics = [OffsetFetchRequestTopics(topic_id=topic_id or talk.listener.topic_id("orders"), partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(talk.group_id, topics=topics)])
    (group,) = talk.listener.call(request, 10).groups
    return [[p.committed_offset, name_of(p.error_code)] for topic in group.topics for p in topic.partitions]


def _all_by_id(talk: Talk) -> Any:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(talk.group_id, topics=None)])
    (group,) = talk.listener.call(request, 10).groups
    return [[topic.topic_id == talk.listener.topic_id("orders"), len(topic.partitions)] for topic in group.topics]


@conversation
def all_offsets_are_fetched(talk: Talk) -> Any:
    talk.commit()
    talk.commit(topic="prices", partition=1, offset=7)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(talk.group_id, topics=None), OffsetFetchRequestGroup("none", topics=None)]
    )
    groups = [
        [
            name_of(group.error_code),
            sorted(
                [t.name, sorted([p.partition_index, p.committed_offset] for p in t.partitions)] for t in group.topics
            ),
        ]
        for group in talk.listener.call(request, 8).groups
    ]
    old = OffsetFetchRequest(group_id=talk.group_id, topics=[OffsetFetchRequestTopic("orders", [0, 3])])
    answer = talk.listener.call(old, 7)
    partitions = [
        [p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, name_of(p.error_code)]
        for p in answer.topics[0].partitions
    ]
    unknown = [talk.on("none").fetch(), talk.fetch("none"), talk.fetch(partition=99)]
    return [groups, name_of(answer.error_code), partitions, unknown]


@conversation
def offsets_are_deleted(talk: Talk) -> Any:
    member_id, generation = talk.stable()
    talk.commit(member_id, generation)
    talk.commit(member_id, generation, topic="prices")
    heard = [talk.forget("orders"), talk.forget("prices"), talk.fetch(), talk.fetch("prices"), talk.forget("none")]
    heard += [talk.forget("prices", 99), talk.on("none").forget("orders"), talk.on("").forget("orders")]
    other = talk.on(f"{talk.group_id}-connect")
    given = other.join(protocol_type="connect").member_id
    other.join(given, protocol_type="connect")
    return [*heard, other.forget("orders")]


@conversation
def groups_are_described_listed_and_deleted(talk: Talk) -> Any:
    simple = talk.on(f"{talk.group_id}-simple")
    simple.commit()
    member_id, _ = talk.stable()
    heard = [talk.describe(), simple.describe(), talk.on("none").describe(), talk.on("none").describe(5)]
    heard += [talk.listed(), simple.listed(), talk.listed(["stable"]), talk.listed(["EMPTY", "dead"])]
    heard += [talk.listed(types=["Classic"]), talk.listed(types=["consumer"]), talk.listed(types=["other"])]
    talk.join(member_id)
    heard += [talk.describe(), talk.listed(), talk.delete(), simple.delete(), simple.delete(), simple.fetch()]
    return [*heard, simple.describe(), talk.on("none").delete()]


@conversation
def a_consumer_joins_and_stays(talk: Talk) -> Any:
    full = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["orders"]}
    return [
        talk.enter("m"),
        talk.beat("m", 1),
        talk.beat("m", 1, topic_partitions=talk.own(0, 1, 2, 3)),
        talk.beat("m", 1, topic_partitions=talk.own(0, 1, 2, 3), **full),
        talk.enter("m"),
    ]


@conversation
def two_consumers_share(talk: Talk) -> Any:
    heard: list[Any] = [talk.enter("a"), talk.enter("b"), talk.beat("b", 2)]
    revoke = talk.beat("a", 1, topic_partitions=talk.own(0, 1, 2, 3))
    kept = revoke[4]
    heard += [revoke[:3], len(kept), talk.beat("a", 1)[:3], talk.beat("b", 2)]
    heard.append(talk.beat("a", 1, topic_partitions=talk.own(*kept)))
    given = talk.beat("b", 2)
    heard += [given[:3], len(given[4]), sorted(kept + given[4])]
    heard.append(talk.beat("a", 1, topic_partitions=talk.own(*kept))[:3])
    heard.append(talk.beat("a", 1, topic_partitions=talk.own(0, 1, 2, 3))[:3])
    heard += [talk.beat("a", 5), talk.beat("b", 1), talk.beat("b", -1), talk.beat("b", 2)]
    return heard


@conversation
def consumer_heartbeats_that_make_no_sense(talk: Talk) -> Any:
    wrong: list[dict[str, Any]] = [
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": talk.own(1)},
        {"subscribed_topic_names": None},
        {"instance_id": ""},
        {"rack_id": ""},
        {"server_assignor": "other"},
        {"group_id": ""},
        {"subscribed_topic_names": None, "subscribed_topic_regex": "ord("},
    ]
    heard = [talk.enter("m", **fields)[0] for fields in wrong]
    heard += [
        talk.enter("")[0],
        talk.beat("m", -3)[0],
        talk.beat("m", -2)[0],
        talk.beat("m", 5)[0],
        talk.beat("m", -1)[0],
    ]
    return [heard, talk.enter("", version=0)]


@conversation
def consumers_that_are_unknown(talk: Talk) -> Any:
    talk.enter("m")
    return [
        talk.beat("other", 1)[0],
        talk.beat("other", -1)[0],
        talk.beat("other", -2, instance_id="i")[0],
        talk.beat("other", 1, instance_id="i")[0],
    ]


@conversation
def a_static_consumer_goes_and_comes_back(talk: Talk) -> Any:
    return [
        talk.enter("a", instance_id="i"),
        talk.enter("b", instance_id="i")[0],
        talk.beat("b", 1, instance_id="i")[0],
        talk.beat("a", -2, instance_id="i"),
        talk.enter("b", instance_id="i"),
        talk.beat("a", 1, instance_id="i")[0],
        talk.beat("b", -1, instance_id="i"),
    ]


@conversation
def a_consumer_subscribes_to_something_else(talk: Talk) -> Any:
    talk.enter("m")
    moved = talk.beat("m", 1, subscribed_topic_names=["prices"], topic_partitions=talk.own(0, 1, 2, 3))
    return [moved, talk.beat("m", moved[2], topic_partitions=[])]


@conversation
def a_consumer_commits_and_fetches(talk: Talk) -> Any:
    talk.enter("m")
    heard: list[Any] = [talk.commit("m", epoch) for epoch in (1, 0, 2, -1)]
    heard += [talk.commit("other", 1), talk.commit(), talk.commit("m", 1, version=8), talk.fetch()]
    heard += [talk.fetch(member_id="m", epoch=1), talk.fetch(member_id="m", epoch=2)]
    return [*heard, talk.fetch(member_id="other", epoch=1)]


@conversation
def a_consumer_group_is_described_listed_and_deleted(talk: Talk) -> Any:
    talk.enter("m")
    (group,) = talk.listener.call(ConsumerGroupDescribeRequest([talk.group_id]), 1).groups
    (unknown,) = talk.listener.call(ConsumerGroupDescribeRequest(["none"]), 1).groups
    (member,) = group.members
    seen = [
        name_of(group.error_code),
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        group.assignor_name,
        [member.member_id, member.instance_id, member.rack_id, member.member_epoch, member.client_id],
        [member.client_host, member.subscribed_topic_names, member.subscribed_topic_regex or None, member.member_type],
        [[each.topic_name, each.partitions] for each in member.assignment.topic_partitions],
        [[each.topic_name, each.partitions] for each in member.target_assignment.topic_partitions],
    ]
    heard = [seen, name_of(unknown.error_code), unknown.error_message, talk.describe(), talk.listed(), talk.delete()]
    talk.beat("m", -1)
    return [*heard, talk.listed(["empty"], ["consumer"]), talk.delete(), talk.delete()]


@conversation
def classic_requests_on_a_consumer(talk: Talk) -> Any:
    talk.enter("m")
    heard = [talk.heartbeat("m", 1), talk.sync("m", 1), talk.leave(("other", None)), talk.leave(("m", None))]
    return [*heard, talk.beat("m", 1)[0]]


@conversation
def an_empty_group_changes_its_kind_and_back(talk: Talk) -> Any:
    member_id, generation = talk.stable()
    talk.commit(member_id, generation)
    talk.leave((member_id, None))
    return [talk.enter("m"), talk.fetch(), talk.beat("m", -1)[0], talk.joined(), talk.fetch()]


@conversation
def a_group_with_a_member_is_upgraded(talk: Talk) -> Any:
    member_id, generation = talk.stable()
    heard = [talk.enter("m"), talk.heartbeat(member_id, generation)]
    answer = talk.join(member_id)
    return [*heard, told(answer), talk.sync(member_id, answer.generation_id)]


@conversation
def a_group_of_another_kind_is_not_upgraded(talk: Talk) -> Any:
    given = talk.join(protocol_type="connect").member_id
    talk.join(given, protocol_type="connect")
    return [talk.enter("m")[0], talk.beat("m", 3)[0]]


@conversation
def a_classic_member_joins_a_consumer_group(talk: Talk) -> Any:
    talk.enter("m")
    first = talk.join()
    return [told(first), talk.joined(first.member_id), talk.joined(protocol_type="connect"), talk.joined("made-up")]
