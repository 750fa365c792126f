"""The consumer group protocol of KIP-848 through librdkafka and the Java client, and the way to and from the older."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from drivers.topics import committed, create_topic, delete_topic, fill, grow_topic

from harness.group_members import Members, Place, places_of, running, wait_for_commits, wait_for_shares
from harness.java import JavaTools
from harness.server import ServerProcess
from harness.waiting import wait_until

WAIT_SECONDS_MAX = 40
# The two clients that speak it.
CLIENTS = ("confluent", "java")
WITH_OURS = (*CLIENTS, "tidelog")
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "4",
}


@pytest.fixture(scope="module")
def server(start_broker: Callable[..., ServerProcess]) -> ServerProcess:
    return start_broker(SETTINGS)


@pytest.fixture(scope="module")
def patient_server(start_broker: Callable[..., ServerProcess]) -> ServerProcess:
    """One that waits for members as long as usual: on a busy machine a client takes more than two seconds to start."""
    return start_broker(SETTINGS | {"group.consumer.session.timeout.ms": "45000"})


@pytest.fixture
def patient_members(patient_server: ServerProcess, tmp_path: Path) -> Iterator[Members]:
    yield from running(patient_server.bootstrap_servers, tmp_path)


@pytest.fixture(scope="module")
def tools(server: ServerProcess) -> JavaTools:
    return JavaTools(server.bootstrap_servers)


@pytest.fixture
def members(server: ServerProcess, tmp_path: Path) -> Iterator[Members]:
    yield from running(server.bootstrap_servers, tmp_path)


@pytest.mark.req("A21", "K1", "K5", "K10", "K11")
@pytest.mark.parametrize("client", WITH_OURS)
def test_a_group_reads_commits_and_goes_on_from_there(
    server: ServerProcess, members: Members, topic: str, client: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 3)
    fill(server.bootstrap_servers, topic, 3, 3_000)
    first = members.start(client, topic, topic, protocol="consumer", strategy="uniform", auto_commit=True)
    first.wait_for_records(3_000)
    wait_until(
        lambda: committed(server.bootstrap_servers, topic, topic, 3) == {0: 1_000, 1: 1_000, 2: 1_000}, WAIT_SECONDS_MAX
    )
    first.leave()

    fill(server.bootstrap_servers, topic, 3, 300, first=3_000)
    second = members.start(client, topic, topic, protocol="consumer", strategy="uniform")
    second.wait_for_records(300)

    assert second.offsets(Place(topic, 1)) == set(range(1_000, 1_100))
    assert second.records() == 300


@pytest.mark.req("A21", "L1", "L9")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_share_the_partitions_and_the_surplus_member_idles_until_one_leaves(
    server: ServerProcess, members: Members, topic: str, client: str, assignor: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 2)
    first = members.start(client, topic, topic, protocol="consumer", strategy=assignor)
    first.wait_for_assignment(2)

    others = members.start_many(2, client, topic, topic, protocol="consumer", strategy=assignor)
    everyone = [first, *others]
    wait_for_shares(everyone, places_of(topic, 2))
    leaving = next(member for member in everyone if member.assignment)
    leaving.leave()
    wait_for_shares([member for member in everyone if member is not leaving], places_of(topic, 2))
    fill(server.bootstrap_servers, topic, 2, 100)
    wait_until(lambda: sum(member.records() for member in everyone) == 100, WAIT_SECONDS_MAX)


@pytest.mark.req("L1")
@pytest.mark.parametrize("client", WITH_OURS)
def test_who_joins_takes_nothing_from_others_but_its_share(
    server: ServerProcess, members: Members, topic: str, client: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 6)
    first = members.start(client, topic, topic, protocol="consumer", strategy="uniform")
    first.wait_for_assignment(6)

    second = members.start(client, topic, topic, protocol="consumer", strategy="uniform")
    wait_for_shares([first, second], places_of(topic, 6))

    revoked = [place for event in first.events if event.name == "partitions_revoked" for place in event.places]
    assert sorted(revoked) == sorted(second.assignment)


@pytest.mark.req("L1", "L9")
def test_members_of_every_client_share_one_group(server: ServerProcess, members: Members, topic: str) -> None:
    create_topic(server.bootstrap_servers, topic, 6)
    everyone = [members.start(client, topic, topic, protocol="consumer", strategy="uniform") for client in WITH_OURS]
    wait_for_shares(everyone, places_of(topic, 6))
    fill(server.bootstrap_servers, topic, 6, 600)
    wait_until(lambda: sum(member.records() for member in everyone) == 600, WAIT_SECONDS_MAX)
    everyone[0].kill()
    wait_for_shares(everyone[1:], places_of(topic, 6))


@pytest.mark.req("L3")
@pytest.mark.parametrize("client", CLIENTS)
def test_new_partitions_of_a_topic_are_given_out(
    server: ServerProcess, members: Members, topic: str, client: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 1)
    pair = members.start_many(2, client, topic, topic, protocol="consumer", strategy="uniform")
    wait_for_shares(pair, places_of(topic, 1))

    grow_topic(server.bootstrap_servers, topic, 4)

    wait_for_shares(pair, places_of(topic, 4))


@pytest.mark.req("L2")
def test_the_server_finds_the_topics_of_a_regular_expression(
    server: ServerProcess, members: Members, topic: str
) -> None:
    names = [f"{topic}.{number}" for number in range(2)]
    create_topic(server.bootstrap_servers, names[0], 2)
    pattern = "^" + topic.replace(".", r"\.") + r"\..*"
    pair = members.start_many(2, "confluent", pattern, topic, protocol="consumer", strategy="uniform")
    wait_for_shares(pair, places_of(names[0], 2))

    create_topic(server.bootstrap_servers, names[1], 2)
    wait_for_shares(pair, places_of(names[0], 2) + places_of(names[1], 2))

    delete_topic(server.bootstrap_servers, names[0])
    wait_for_shares(pair, places_of(names[1], 2))


@pytest.mark.req("L1")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("returns", [False, True], ids=["killed", "frozen"])
def test_the_partitions_of_a_member_without_heartbeats_go_to_the_others(
    server: ServerProcess, members: Members, topic: str, client: str, returns: bool
) -> None:
    create_topic(server.bootstrap_servers, topic, 4)
    pair = members.start_many(2, client, topic, topic, protocol="consumer", strategy="uniform")
    wait_for_shares(pair, places_of(topic, 4))
    # Both have found their positions: the Java client does not survive when it is fenced while it looks for them.
    fill(server.bootstrap_servers, topic, 4, 400)
    wait_until(lambda: sum(member.records() for member in pair) >= 400, WAIT_SECONDS_MAX)

    if returns:
        pair[0].freeze()
    else:
        pair[0].kill()
    pair[1].wait_for_assignment(4)

    if returns:
        pair[0].thaw()
        wait_for_shares(pair, places_of(topic, 4))


@pytest.mark.req("L1")
@pytest.mark.parametrize("client", WITH_OURS)
def test_a_static_member_gets_its_partitions_back(
    patient_server: ServerProcess, patient_members: Members, topic: str, client: str
) -> None:
    create_topic(patient_server.bootstrap_servers, topic, 4)
    pair = [
        patient_members.start(
            client, topic, topic, protocol="consumer", strategy="uniform", instance=f"instance-{number}"
        )
        for number in range(2)
    ]
    wait_for_shares(pair, places_of(topic, 4))
    before, assignments = pair[1].assignment, pair[0].assignments

    pair[1].leave()
    again = patient_members.start(client, topic, topic, protocol="consumer", strategy="uniform", instance="instance-1")
    again.wait_for_assignment(2)

    assert again.assignment == before
    assert pair[0].assignments == assignments


@pytest.mark.req("K11")
@pytest.mark.parametrize("abrupt", [False, True], ids=["stopped", "killed"])
def test_groups_go_on_where_they_were_when_the_broker_comes_back(
    patient_server: ServerProcess, patient_members: Members, topic: str, abrupt: bool
) -> None:
    create_topic(patient_server.bootstrap_servers, topic, 2)
    fill(patient_server.bootstrap_servers, topic, 2, 2_000)
    groups = {
        client: patient_members.start_many(
            2, client, topic, f"{topic}-{client}", protocol="consumer", strategy="uniform"
        )
        for client in CLIENTS
    }
    for client, group in groups.items():
        wait_for_shares(group, places_of(topic, 2))
        find = partial(committed, patient_server.bootstrap_servers, f"{topic}-{client}", topic, 2)
        wait_for_commits(group, find, {0: 1_000, 1: 1_000})
    stopped_ms = int(time.time() * 1000)

    if abrupt:
        patient_server.kill()
        patient_server.start()
    else:
        patient_server.restart()
    fill(patient_server.bootstrap_servers, topic, 2, 2_000, first=2_000)

    for client, group in groups.items():
        find = partial(committed, patient_server.bootstrap_servers, f"{topic}-{client}", topic, 2)
        wait_for_commits(group, find, {0: 2_000, 1: 2_000})
        # Nobody began again at offset 0.
        assert min(member.first_offset_since(stopped_ms, default=1_000) for member in group) == 1_000


@pytest.mark.req("A21", "L8")
@pytest.mark.parametrize(
    ("older", "newer"),
    [("confluent", "java"), ("java", "confluent"), ("aiokafka", "confluent"), ("tidelog", "tidelog")],
)
def test_a_group_changes_its_protocol_member_by_member_and_back(
    server: ServerProcess, tools: JavaTools, members: Members, topic: str, older: str, newer: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 4)
    fill(server.bootstrap_servers, topic, 4, 400)
    classic = members.start_many(2, older, topic, topic, session_timeout_ms=6_000)
    wait_for_shares(classic, places_of(topic, 4))
    wait_until(lambda: sum(member.records() for member in classic) >= 400, WAIT_SECONDS_MAX)

    modern = members.start(newer, topic, topic, protocol="consumer", strategy="range")
    wait_for_shares([*classic, modern], places_of(topic, 4))
    classic[0].leave()
    wait_for_shares([classic[1], modern], places_of(topic, 4))
    classic[1].leave()
    wait_for_shares([modern], places_of(topic, 4))
    fill(server.bootstrap_servers, topic, 4, 400, first=400)
    modern.wait_for_records(400)

    again = members.start(older, topic, topic, session_timeout_ms=6_000)
    wait_for_shares([modern, again], places_of(topic, 4))
    modern.leave()
    wait_for_shares([again], places_of(topic, 4))
    fill(server.bootstrap_servers, topic, 4, 400, first=800)
    again.wait_for_records(400)
    # A member tells of records before it has committed them.
    wait_for_commits(
        [again], lambda: committed(server.bootstrap_servers, topic, topic, 4), dict.fromkeys(range(4), 300)
    )
