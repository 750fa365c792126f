"""Plans of replicas: read and written as Kafka does it, refused where they cannot be, spread evenly when made anew."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tidelog.cli.failures import BadInput
from tidelog.cli.reassignment_plans import Plan, read_plan, read_topics, spread_over, write_plan
from tidelog.client.core.metadata import Node
from tidelog.model.ids import NodeId, PartitionIndex, TopicName, TopicPartition


def place(topic: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, numbers))


def written(folder: Path, text: str) -> str:
    path = folder / "plan.json"
    path.write_text(text)
    return str(path)


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    plan: Plan = {
        place("b", 0): nodes(3, 1),
        place("a", 1): nodes(
            2,
        ),
    }
    directories = {(place("b", 0), NodeId(1)): "/data/1"}

    assert read_plan(written(tmp_path, write_plan(plan, directories))) == (plan, directories)


def test_a_plan_is_written_in_the_order_of_topics_with_any_directory(tmp_path: Path) -> None:
    assert write_plan(
        {
            place("b", 0): nodes(3, 1),
            place("a", 1): nodes(
                2,
            ),
        }
    ) == (
        '{"version":1,"partitions":[{"topic":"a","partition":1,"replicas":[2],"log_dirs":["any"]},'
        '{"topic":"b","partition":0,"replicas":[3,1],"log_dirs":["any","any"]}]}'
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "plan.json"),
        ('{"version":2,"partitions":[]}', "Not supported version field value 2"),
        ('{"partitions":[]}', "Partition reassignment list cannot be empty"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[]}]}', "Partition replica list cannot be empty"),
        (
            '{"partitions":[{"topic":"a","partition":0,"replicas":[1,1]}]}',
            "duplicate entries: a-0 contains multiple entries for 1",
        ),
        (
            '{"partitions":[{"topic":"a","partition":0,"replicas":[1]},{"topic":"a","partition":0,"replicas":[2]}]}',
            "duplicate topic partitions: a-0",
        ),
        (
            '{"partitions":[{"topic":"a","partition":0,"replicas":[1,2],"log_dirs":["any"]}]}',
            r"Size of replicas list \[1, 2\] is different from size of log dirs list \[any\] for partition a-0",
        ),
    ],
)
def test_a_plan_that_cannot_be_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        read_plan(written(tmp_path, text))


def test_topics_to_move_are_named_once(tmp_path: Path) -> None:
    assert read_topics(written(tmp_path, '{"topics":[{"topic":"a"},{"topic":"b"}],"version":1}')) == ["a", "b"]
    with pytest.raises(BadInput, match="duplicate entries"):
        read_topics(written(tmp_path, '{"topics":[{"topic":"a"},{"topic":"a"}]}'))


def test_partitions_are_spread_evenly_over_the_brokers_that_are_named() -> None:
    current = {place("a", index): nodes(1, 2) for index in range(6)}
    brokers = [Node(NodeId(number), "h", number) for number in (3, 4, 5)]

    plan = spread_over(current, brokers, None, racks=True)

    assert Counter(replicas[0] for replicas in plan.values()) == {3: 2, 4: 2, 5: 2}
    assert Counter(node for replicas in plan.values() for node in replicas) == {3: 4, 4: 4, 5: 4}
    assert {len(replicas) for replicas in spread_over(current, brokers, 3, racks=True).values()} == {3}
    with pytest.raises(BadInput, match="factor of 4 cannot be reached because only 3"):
        spread_over(current, brokers, 4, racks=True)
