"""Our partitioners and assignors beside Java's own: the same questions to the classes of Apache Kafka, in one JVM."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.apache_kafka import java_command
from tidelog.client.core.assignors import Assignor, assignors_of
from tidelog.client.core.group_protocol import MemberSubscription
from tidelog.client.core.partitioner import RoundRobinPartitioner, StickyPartitioner, partition_of_key
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition

SOURCE = Path(__file__).parent / "java" / "ClientAnswers.java"
KEYS = 10_000
GROUPS = 150
STICKY_BYTES = 1_000
JAVA_SECONDS_MAX = 120
TOPIC = TopicName("t")

Shares = dict[str, list[TopicPartition]]


class Group(NamedTuple):
    assignor: str
    topics: dict[TopicName, int]
    members: dict[str, MemberSubscription]


def keys() -> list[tuple[bytes, int]]:
    choose = random.Random(1)
    return [(choose.randbytes(choose.randrange(0, 40)), choose.randrange(1, 200)) for _ in range(KEYS)]


def sizes() -> list[int]:
    choose = random.Random(2)
    return [choose.randrange(1, 700) for _ in range(2_000)]


def groups() -> list[Group]:
    """Groups that are new and groups that were shared before, by the assignors in turn."""
    choose = random.Random(3)
    made: list[Group] = []
    for number in range(GROUPS):
        (assignor,) = assignors_of([("range", "roundrobin", "sticky", "cooperative-sticky")[number % 4]])
        topics = {TopicName(name): choose.randrange(1, 9) for name in choose.sample("abcde", choose.randrange(1, 5))}
        alike = choose.random() < 0.5
        members = {
            f"m{index}-{choose.randrange(100)}": MemberSubscription(
                tuple(sorted(topics if alike else choose.sample(sorted(topics), choose.randrange(1, len(topics) + 1)))),
                instance_id=f"i{choose.randrange(1000)}" if choose.random() < 0.3 else None,
            )
            for index in range(choose.randrange(1, 7))
        }
        if choose.random() < 0.6:
            members = grown(choose, assignor, topics, members)
        made.append(Group(assignor.name, topics, members))
    return made


def grown(
    choose: random.Random, assignor: Assignor, topics: dict[TopicName, int], members: dict[str, MemberSubscription]
) -> dict[str, MemberSubscription]:
    """The members as they join again after one left and another came."""
    shares = assignor.assign(topics, members)
    again = {
        name: MemberSubscription(
            wanted.topics,
            tuple(shares[name]) if assignor.cooperative else (),
            5,
            wanted.instance_id,
            user_data=assignor.user_data(shares[name], 5),
        )
        for name, wanted in members.items()
    }
    if len(again) > 1:
        del again[choose.choice(sorted(again))]
    again["newcomer"] = MemberSubscription(next(iter(again.values())).topics, user_data=assignor.user_data([], -1))
    return again


def question(group: Group) -> str:
    rows = [
        ";".join(
            [
                name,
                member.instance_id or "",
                ",".join(member.topics),
                ",".join(f"{place.topic}:{place.partition}" for place in member.owned),
                str(member.generation),
                (member.user_data or b"").hex(),
            ]
        )
        for name, member in group.members.items()
    ]
    topics = ",".join(f"{name}:{count}" for name, count in group.topics.items())
    return "|".join(["assign", group.assignor, topics, *rows])


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """What Java answers to each question."""
    asked = [f"key|{key.hex()}|{partitions}" for key, partitions in keys()]
    asked += ["roundrobin|3|10", f"sticky|{STICKY_BYTES}|{','.join(map(str, sizes()))}"]
    asked += [question(group) for group in groups()]
    command = java_command(str(SOURCE), log_level="error")
    done = subprocess.run(
        command, input="\n".join(asked) + "\n", capture_output=True, text=True, timeout=JAVA_SECONDS_MAX
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(asked, done.stdout.splitlines(), strict=True))


@pytest.mark.req("I3")
def test_ten_thousand_keys_go_where_java_puts_them(answers: Mapping[str, str]) -> None:
    for key, partitions in keys():
        assert partition_of_key(key, partitions) == int(answers[f"key|{key.hex()}|{partitions}"])


@pytest.mark.req("I1")
def test_round_robin_takes_turns_as_javas_does(answers: Mapping[str, str]) -> None:
    partitioner = RoundRobinPartitioner()
    chosen = [partitioner.partition(TOPIC, b"key", 10, 3) for _ in range(10)]
    assert ",".join(map(str, chosen)) == answers["roundrobin|3|10"]


def test_a_sticky_partition_is_left_after_as_many_bytes_as_javas(answers: Mapping[str, str]) -> None:
    partitioner = StickyPartitioner(random.Random(4).randrange, STICKY_BYTES)
    changes, last = [], None
    for number, size in enumerate(sizes()):
        chosen = partitioner.partition(TOPIC, None, size, 3)
        if chosen != last:
            changes.append(str(number))
        last = chosen
    assert ",".join(changes) == answers[f"sticky|{STICKY_BYTES}|{','.join(map(str, sizes()))}"]


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_shares_are_exactly_javas(answers: Mapping[str, str], name: str) -> None:
    compared = 0
    for group in groups():
        if group.assignor == name:
            (assignor,) = assignors_of([name])
            assert ordered(assignor.assign(group.topics, group.members)) == read(answers[question(group)])
            compared += 1
    assert compared > GROUPS // 5


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_sticky_shares_are_as_even_as_javas_and_move_no_more(answers: Mapping[str, str], name: str) -> None:
    """Which of equal shares a member gets may differ; how even they are and what may stay must not be worse."""
    compared = 0
    for group in groups():
        if group.assignor != name:
            continue
        (assignor,) = assignors_of([name])
        ours, javas = ordered(assignor.assign(group.topics, group.members)), read(answers[question(group)])
        if name == "cooperative-sticky":
            # What moves is in nobody's share yet: with that, both speak of the same end.
            assert sum(map(len, ours.values())) >= sum(map(len, javas.values()))
        else:
            assert unevenness(ours) <= unevenness(javas)
        alike = len({member.topics for member in group.members.values()}) == 1
        if alike:
            assert stayed(ours, group.members) >= stayed(javas, group.members)
            new = not any(member.owned or member.generation > 0 for member in group.members.values())
            if new:
                assert ours == javas
        compared += 1
    assert compared > GROUPS // 5


def unevenness(shares: Shares) -> int:
    return sum(len(share) ** 2 for share in shares.values())


def stayed(shares: Shares, members: Mapping[str, MemberSubscription]) -> int:
    return sum(place in members[name].owned for name, share in shares.items() for place in share)


def ordered(shares: Mapping[str, list[TopicPartition]]) -> Shares:
    return {name: sorted(shares[name]) for name in sorted(shares)}


def read(line: str) -> Shares:
    shares: Shares = {}
    for row in line.split(";"):
        name, _, places = row.partition("=")
        found = [place.split(":") for place in places.split(",") if place]
        shares[name] = sorted(TopicPartition(TopicName(topic), PartitionIndex(int(index))) for topic, index in found)
    return shares
