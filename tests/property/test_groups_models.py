"""The parts of groups that keep books, against books that a child could keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.groups.codec import decode_record, encode_key, encode_value
from tidelog.groups.deadlines import Alarm, Deadlines, Timer
from tidelog.groups.offsets.store import CommittedOffset, OffsetStore
from tidelog.groups.records import GroupRecord, group_metadata, offset_commit
from tidelog.model.ids import ProducerId
from tidelog.wire.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue

GROUPS = st.sampled_from(["a", "b"])
TOPICS = st.sampled_from(["orders", "prices"])
PARTITIONS = st.integers(0, 1)
PRODUCERS = st.integers(1, 3).map(ProducerId)
PLACES = st.tuples(GROUPS, TOPICS, PARTITIONS)

Place = tuple[str, str, int]
Step = tuple[str, Place, int, ProducerId, bool]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "transaction", "transaction", "tombstone", "end"]),
        PLACES,
        st.integers(0, 99),
        PRODUCERS,
        st.booleans(),
    ),
    max_size=40,
)


def _expected(steps: list[Step]) -> tuple[dict[Place, int], set[Place]]:
    """What counts after all steps, by looking at the whole history once for each place."""
    committed: dict[Place, tuple[int, int]] = {}
    pending: dict[tuple[ProducerId, Place], tuple[int, int]] = {}
    for number, (kind, place, offset, producer, flag) in enumerate(steps):
        if kind == "commit":
            committed[place] = (number, offset)
        elif kind == "transaction":
            pending[producer, place] = (number, offset)
        elif kind == "tombstone":
            committed.pop(place, None)
            pending = {key: value for key, value in pending.items() if key[1] != place}
        else:
            for (owner, where), written in list(pending.items()):
                if owner == producer:
                    del pending[owner, where]
                    if flag and written > committed.get(where, (-1, -1)):
                        committed[where] = written
    return {place: offset for place, (_, offset) in committed.items()}, {place for _, place in pending}


@pytest.mark.req("K11")
@given(STEPS)
def test_offsets_are_what_the_history_says(steps: list[Step]) -> None:
    store = OffsetStore()
    for number, (kind, place, offset, producer, flag) in enumerate(steps):
        value = CommittedOffset(offset, -1, "", 0, record_offset=number)
        if kind == "commit":
            store.put(*place, value)
        elif kind == "transaction":
            store.put_pending(producer, *place, value)
        elif kind == "tombstone":
            store.remove(*place)
        else:
            store.end_transaction(producer, flag)

    counting, open_places = _expected(steps)
    found = {
        (group, topic, number): committed.offset
        for group, topics in store.by_group.items()
        for topic, partitions in topics.items()
        for number, committed in partitions.items()
    }
    assert found == counting
    everywhere = [(group, topic, number) for group in "ab" for topic in ("orders", "prices") for number in (0, 1)]
    assert {place for place in everywhere if store.is_pending(*place)} == open_places
    assert {group for group in "ab" if store.has_pending(group)} == {place[0] for place in open_places}
    touched = counting.keys() | open_places
    assert {(group, *rest) for group in "ab" for rest in store.partitions_of(group)} == touched
    by_topic = {(topic, group) for topic, groups in store.groups_by_topic.items() for group in groups}
    assert by_topic == {(topic, group) for group, topic, _ in touched}


@given(
    st.lists(
        st.tuples(st.sampled_from(["start", "start", "stop", "pass"]), st.integers(0, 4), st.integers(0, 30)),
        max_size=60,
    )
)
def test_timers_go_off_when_they_were_last_set_to_and_in_that_order(steps: list[tuple[str, int, int]]) -> None:
    deadlines = Deadlines()
    timers = [Timer(Alarm.SESSION, member_id=str(number)) for number in range(5)]
    expected: dict[int, int] = {}
    now_ms = 0
    for kind, number, milliseconds in steps:
        if kind == "start":
            deadlines.start(timers[number], now_ms + milliseconds)
            expected[number] = now_ms + milliseconds
        elif kind == "stop":
            deadlines.stop(timers[number])
            expected.pop(number, None)
        else:
            now_ms += milliseconds
            fired = []
            while (timer := deadlines.pop(now_ms)) is not None:
                fired.append(int(timer.member_id))
            due = {number: at for number, at in expected.items() if at <= now_ms}
            assert [due[number] for number in fired] == sorted(due.values())
            assert set(fired) == set(due)
            expected = {number: at for number, at in expected.items() if number not in due}
        assert deadlines.next_ms() == min(expected.values(), default=None)
        assert all(timer.running == (number in expected) for number, timer in enumerate(timers))


TEXT = st.text(max_size=20)
MEMBERS = st.builds(
    MemberMetadata,
    member_id=TEXT,
    group_instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout=st.integers(-1, 2**31 - 1),
    session_timeout=st.integers(0, 2**31 - 1),
    subscription=st.binary(max_size=30),
    assignment=st.binary(max_size=30),
)
GROUP_VALUES = st.builds(
    GroupMetadataValue,
    protocol_type=TEXT,
    generation=st.integers(0, 2**31 - 1),
    protocol=st.none() | TEXT,
    leader=st.none() | TEXT,
    current_state_timestamp=st.integers(-1, 2**62),
    members=st.lists(MEMBERS, max_size=3),
)
OFFSET_VALUES = st.builds(
    OffsetCommitValue,
    offset=st.integers(0, 2**62),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=TEXT,
    commit_timestamp=st.integers(0, 2**62),
    topic_id=st.uuids(),
)


@given(
    st.one_of(
        st.builds(group_metadata, TEXT, st.none() | GROUP_VALUES),
        st.builds(offset_commit, TEXT, TEXT, st.integers(0, 2**31 - 1), OFFSET_VALUES),
    )
)
def test_records_come_back_from_their_bytes_as_they_were(record: GroupRecord) -> None:
    assert decode_record(encode_key(record), encode_value(record)) == record
