"""Consumer groups through five clients, each member a process: sharing, independence, triggers, deaths, restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from drivers.topics import committed, create_topic, delete_topic, fill, grow_topic

from harness.group_members import CLIENTS, WITH_OURS, Members, Place, places_of, running, wait_for_shares
from harness.server import ServerProcess
from harness.waiting import wait_until

WAIT_SECONDS_MAX = 40
SHORT_SESSION_MS = 2_000
# With these a death is noticed, and a group formed, within seconds.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
}
# aiokafka and kafka-python speak the older protocols alone.
COOPERATIVE = ("confluent", "kafka-python", "java", "tidelog")


@pytest.fixture(scope="module")
def server(start_broker: Callable[..., ServerProcess]) -> ServerProcess:
    return start_broker(SETTINGS)


@pytest.fixture
def members(server: ServerProcess, tmp_path: Path) -> Iterator[Members]:
    yield from running(server.bootstrap_servers, tmp_path)


@pytest.mark.req("A20", "A21", "K1", "K2", "K3", "K5", "K6", "K10", "K11")
@pytest.mark.parametrize("client", WITH_OURS)
def test_a_group_commits_by_itself_and_goes_on_from_there(
    server: ServerProcess, members: Members, topic: str, client: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 3)
    fill(server.bootstrap_servers, topic, 3, 3_000)
    first = members.start(client, topic, topic, auto_commit=True)
    first.wait_for_records(3_000)
    wait_until(
        lambda: committed(server.bootstrap_servers, topic, topic, 3) == {0: 1_000, 1: 1_000, 2: 1_000}, WAIT_SECONDS_MAX
    )
    first.leave()

    fill(server.bootstrap_servers, topic, 3, 300, first=3_000)
    second = members.start(client, topic, topic, auto_commit=True)
    second.wait_for_records(300)

    assert second.offsets(Place(topic, 1)) == set(range(1_000, 1_100))
    assert second.records() == 300


@pytest.mark.req("A5", "A21", "K8")
@pytest.mark.parametrize("client", WITH_OURS)
def test_groups_do_not_know_of_each_other(server: ServerProcess, members: Members, topic: str, client: str) -> None:
    create_topic(server.bootstrap_servers, topic, 2)
    fill(server.bootstrap_servers, topic, 2, 1_000)

    readers = [members.start(client, topic, f"{topic}-{number}") for number in range(2)]

    for reader in readers:
        reader.wait_for_records(1_000)
        assert reader.offsets(Place(topic, 0)) == reader.offsets(Place(topic, 1)) == set(range(500))


@pytest.mark.req("A21", "L1", "L4", "L9")
@pytest.mark.parametrize("client", WITH_OURS)
def test_members_share_the_partitions_and_the_surplus_member_idles_until_one_leaves(
    server: ServerProcess, members: Members, topic: str, client: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 2)
    first = members.start(client, topic, topic)
    first.wait_for_assignment(2)

    others = members.start_many(2, client, topic, topic)
    wait_for_shares([first, *others], places_of(topic, 2))
    wait_until(lambda: all(member.assignments for member in others), WAIT_SECONDS_MAX)
    everyone = [first, *others]

    fill(server.bootstrap_servers, topic, 2, 100)
    wait_until(lambda: sum(member.records() for member in everyone) == 100, WAIT_SECONDS_MAX)
    (idle,) = [member for member in everyone if not member.assignment]
    assert idle.records() == 0
    leaving = next(member for member in everyone if member.assignment)
    leaving.leave()
    wait_for_shares([member for member in everyone if member is not leaving], places_of(topic, 2))


@pytest.mark.req("L3")
@pytest.mark.parametrize("client", WITH_OURS)
def test_new_partitions_of_a_topic_are_given_out(
    server: ServerProcess, members: Members, topic: str, client: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 1)
    pair = members.start_many(2, client, topic, topic)
    wait_for_shares(pair, places_of(topic, 1))

    grow_topic(server.bootstrap_servers, topic, 4)

    wait_for_shares(pair, places_of(topic, 4))


@pytest.mark.req("L2")
@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka", "tidelog"])
def test_topics_that_come_and_go_under_a_pattern_are_given_out_and_taken_back(
    server: ServerProcess, members: Members, topic: str, client: str
) -> None:
    names = [f"{topic}.{number}" for number in range(2)]
    create_topic(server.bootstrap_servers, names[0], 2)
    pair = members.start_many(2, client, "^" + topic.replace(".", r"\.") + r"\..*", topic)
    wait_for_shares(pair, places_of(names[0], 2))

    create_topic(server.bootstrap_servers, names[1], 2)
    wait_for_shares(pair, places_of(names[0], 2) + places_of(names[1], 2))

    delete_topic(server.bootstrap_servers, names[0])
    wait_for_shares(pair, places_of(names[1], 2))


@pytest.mark.req("A21", "L1")
@pytest.mark.parametrize("client", WITH_OURS)
def test_the_partitions_of_a_killed_member_go_to_the_others_after_its_session(
    server: ServerProcess, members: Members, topic: str, client: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 4)
    pair = members.start_many(2, client, topic, topic, session_timeout_ms=SHORT_SESSION_MS)
    wait_for_shares(pair, places_of(topic, 4))

    pair[0].kill()

    pair[1].wait_for_assignment(4)


@pytest.mark.req("A21", "L1")
@pytest.mark.parametrize("client", WITH_OURS)
def test_a_member_that_stood_still_too_long_loses_its_partitions_and_comes_back(
    server: ServerProcess, members: Members, topic: str, client: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 4)
    pair = members.start_many(2, client, topic, topic, session_timeout_ms=SHORT_SESSION_MS)
    wait_for_shares(pair, places_of(topic, 4))

    pair[0].freeze()
    pair[1].wait_for_assignment(4)
    pair[0].thaw()

    wait_for_shares(pair, places_of(topic, 4))


@pytest.mark.req("L1")
@pytest.mark.parametrize("client", WITH_OURS)
def test_a_static_member_comes_back_without_a_rebalance(
    server: ServerProcess, members: Members, topic: str, client: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 4)
    pair = [
        members.start(client, topic, topic, instance=f"instance-{number}", session_timeout_ms=30_000)
        for number in range(2)
    ]
    wait_for_shares(pair, places_of(topic, 4))
    before, assignments = pair[1].assignment, pair[0].assignments

    pair[1].kill()
    again = members.start(client, topic, topic, instance="instance-1", session_timeout_ms=30_000)
    again.wait_for_assignment(2)

    assert again.assignment == before
    assert pair[0].assignments == assignments


@pytest.mark.req("L7", "L8")
@pytest.mark.parametrize("client", COOPERATIVE)
def test_a_cooperative_group_takes_away_only_what_must_move(
    server: ServerProcess, members: Members, topic: str, client: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 4)
    first = members.start(client, topic, topic, strategy="cooperative-sticky")
    first.wait_for_assignment(4)

    second = members.start(client, topic, topic, strategy="cooperative-sticky")
    wait_until(lambda: len(second.assignment) == 2 and len(first.assignment) == 2, WAIT_SECONDS_MAX)

    wait_for_shares([first, second], places_of(topic, 4))
    revoked = [place for event in first.events if event.name == "partitions_revoked" for place in event.places]
    assert sorted(revoked) == sorted(second.assignment)


@pytest.mark.req("L5", "L6", "L8")
@pytest.mark.parametrize("client", WITH_OURS)
@pytest.mark.parametrize(("strategy", "shares"), [("range", ([0, 1, 2], [3, 4])), ("roundrobin", ([0, 2, 4], [1, 3]))])
def test_the_strategy_decides_who_gets_what(
    server: ServerProcess,
    members: Members,
    topic: str,
    client: str,
    strategy: str,
    shares: tuple[list[int], list[int]],
) -> None:
    create_topic(server.bootstrap_servers, topic, 5)
    pair = members.start_many(2, client, topic, topic, strategy=strategy)

    wait_for_shares(pair, places_of(topic, 5))

    given = sorted(sorted(place.partition for place in member.assignment) for member in pair)
    assert given == sorted(shares)


@pytest.mark.req("A21", "L5")
def test_members_of_every_client_share_one_group(server: ServerProcess, members: Members, topic: str) -> None:
    create_topic(server.bootstrap_servers, topic, 10)
    everyone = [members.start(client, topic, topic) for client in WITH_OURS]

    wait_for_shares(everyone, places_of(topic, 10))
    fill(server.bootstrap_servers, topic, 10, 1_000)

    wait_until(
        lambda: committed(server.bootstrap_servers, topic, topic, 10) == dict.fromkeys(range(10), 100), WAIT_SECONDS_MAX
    )
    assert all(member.records() >= 200 for member in everyone)


@pytest.mark.req("K11", "A21")
@pytest.mark.parametrize("abrupt", [False, True], ids=["stopped", "killed"])
def test_groups_of_every_client_go_on_where_they_were_when_the_broker_comes_back(
    server: ServerProcess, members: Members, topic: str, abrupt: bool
) -> None:
    create_topic(server.bootstrap_servers, topic, 2)
    fill(server.bootstrap_servers, topic, 2, 2_000)
    groups = {client: members.start_many(2, client, topic, f"{topic}-{client}") for client in CLIENTS}
    for group in groups.values():
        wait_until(lambda group=group: sum(member.records() for member in group) >= 2_000, WAIT_SECONDS_MAX)  # type: ignore[misc]
        wait_until(
            lambda group=group: {1_000} == {offset for member in group for offset in member.committed.values()},  # type: ignore[misc]
            WAIT_SECONDS_MAX,
        )

    if abrupt:
        server.kill()
        server.start()
    else:
        server.restart()
    fill(server.bootstrap_servers, topic, 2, 2_000, first=2_000)

    for client, group in groups.items():
        wait_until(
            lambda group=group: all(  # type: ignore[misc]
                set().union(*(member.offsets(place) for member in group)) >= set(range(2_000))
                for place in places_of(topic, 2)
            ),
            WAIT_SECONDS_MAX,
        )
        wait_until(
            lambda client=client: (  # type: ignore[misc]
                committed(server.bootstrap_servers, f"{topic}-{client}", topic, 2) == {0: 2_000, 1: 2_000}
            ),
            WAIT_SECONDS_MAX,
        )
        # Nobody began again at offset 0: what was committed before is not read a second time.
        assert sum(member.records() for member in group) == 4_000
