from __future__ import annotations

from uuid import UUID

from tidelog.metadata.delta import Delta
from tidelog.metadata.publisher import Publisher
from tidelog.metadata.snapshot import records_of
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.messages import metadata_records as wire

EPOCH = LeaderEpoch(1)


def topic(number: int) -> wire.TopicRecord:
    return wire.TopicRecord(name=f"topic-{number}", topic_id=UUID(int=100 + number))


def test_subscribers_are_told_of_each_change_in_the_order_in_which_they_came() -> None:
    publisher = Publisher()
    told: list[tuple[str, int, int]] = []
    for name in ("replicas", "caches"):
        publisher.subscribe(lambda delta, name=name: told.append((name, delta.before.offset, delta.after.offset)))
    told.clear()

    publisher.apply([topic(1)], Offset(4), EPOCH)
    publisher.apply([topic(2)], Offset(5), EPOCH)

    assert told == [("replicas", -1, 4), ("caches", -1, 4), ("replicas", 4, 5), ("caches", 4, 5)]
    assert publisher.image.topics_by_name.keys() == {"topic-1", "topic-2"}


def test_a_late_subscriber_is_told_of_what_is_already_there() -> None:
    publisher = Publisher()
    publisher.apply([topic(1)], Offset(0), EPOCH)
    told: list[Delta] = []

    publisher.subscribe(told.append)

    assert [list(delta.topics_created) for delta in told] == [[UUID(int=101)]]


def test_the_image_is_new_before_anyone_acts_on_it() -> None:
    publisher = Publisher()
    seen: list[bool] = []
    publisher.subscribe(lambda delta: seen.append(publisher.image is delta.after or not delta.topics_created))

    publisher.apply([topic(1)], Offset(0), EPOCH)

    assert seen == [True, True]


def test_a_snapshot_replaces_all_and_tells_the_difference() -> None:
    source = Publisher()
    source.apply([topic(2), topic(3)], Offset(9), EPOCH)
    publisher = Publisher()
    publisher.apply([topic(1), topic(2)], Offset(1), EPOCH)
    told: list[Delta] = []
    publisher.subscribe(told.append)
    told.clear()

    publisher.install(records_of(source.image), Offset(9), EPOCH)

    assert publisher.image == source.image
    assert [list(delta.topics_removed) for delta in told] == [[UUID(int=101)]]
    assert [list(delta.topics_created) for delta in told] == [[UUID(int=103)]]
