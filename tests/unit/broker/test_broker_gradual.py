"""Large changes of the metadata in pieces: the same in the end, in the same order, and small ones at once."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from tidelog.broker.gradual import Gradually, pieces
from tidelog.metadata.delta import Delta, PartitionChange, difference
from tidelog.metadata.image import EMPTY, ClusterImage
from tidelog.metadata.replay import replay
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.messages.metadata_records import PartitionRecord, RemoveTopicRecord, TopicRecord
from tidelog.wire.schema import Message


def created(image: ClusterImage, number: int, partitions: int) -> Delta:
    topic_id = UUID(int=number)
    records: list[Message] = [TopicRecord(name=f"topic-{number}", topic_id=topic_id)]
    records += [
        PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1)
        for index in range(partitions)
    ]
    return replay(image, records, Offset(image.offset + len(records)), LeaderEpoch(1))


def deleted(image: ClusterImage, number: int) -> Delta:
    return replay(image, [RemoveTopicRecord(topic_id=UUID(int=number))], Offset(image.offset + 1), LeaderEpoch(1))


class Bench:
    """A loop that turns when it is told to, and one who notes what it is told."""

    def __init__(self, at_once: int) -> None:
        self.turns: list[Callable[[], None]] = []
        self.told: list[PartitionChange] = []
        self.gradually = Gradually(self.turns.append, at_once)
        nothing = difference(EMPTY, EMPTY)
        self.gradually.add(lambda delta: self.told.extend(delta.partition_changes()), nothing)
        self.gradually.apply(nothing)

    def turn(self) -> None:
        turns, self.turns[:] = list(self.turns), []
        for act in turns:
            act()


def test_the_pieces_are_the_whole_in_its_order() -> None:
    one = created(EMPTY, 1, 7)
    both = replay(EMPTY, [], Offset(0), LeaderEpoch(1))
    two = created(one.after, 2, 12)
    whole = difference(both.before, two.after)

    cut = list(pieces(whole, 5))

    assert [change for piece in cut for change in piece.partition_changes()] == list(whole.partition_changes())
    assert all(sum(len(topic.partitions) for topic in piece.topics_created.values()) <= 5 for piece in cut)
    assert all(piece.after is whole.after for piece in cut)


def test_a_small_change_is_handed_on_at_once() -> None:
    bench = Bench(at_once=5)

    bench.gradually.apply(created(EMPTY, 1, 5))

    assert len(bench.told) == 5 and not bench.turns


def test_a_large_one_takes_turns_and_nothing_overtakes_it() -> None:
    bench = Bench(at_once=5)
    large = created(EMPTY, 1, 12)
    gone = deleted(large.after, 1)

    bench.gradually.apply(large)
    bench.gradually.apply(gone)

    assert len(bench.told) == 5
    bench.turn()
    assert len(bench.told) == 10
    bench.turn()
    assert len(bench.told) == 12
    bench.turn()
    assert [change.after for change in bench.told[12:]] == [None] * 12
    assert not bench.turns
