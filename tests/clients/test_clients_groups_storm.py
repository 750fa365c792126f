"""A group in a storm: members of two clients join, leave, freeze and die, the broker restarts, while records flow."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from drivers.confluent_driver import SECONDS_MAX, producer
from drivers.topics import committed, create_topic

from harness.group_history import GroupHistory, read_history
from harness.group_members import Member, Members, Place, places_of, running
from harness.server import ServerProcess
from harness.waiting import wait_until

RECORDS = 200_000
PARTITIONS = 24
MEMBERS_MAX = 20
SESSION_MS = 2_000
STORM_SECONDS = 36
FREEZE_SECONDS = 4
SETTLE_SECONDS_MAX = 60
SEED = 20_260
GENERATIONS_MIN = 12
GROUP = "storm"
CLIENTS = ("confluent", "aiokafka")
SETTINGS = {
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def server(start_broker: Callable[..., ServerProcess]) -> ServerProcess:
    return start_broker(SETTINGS)


@pytest.fixture
def members(server: ServerProcess, tmp_path: Path) -> Iterator[Members]:
    yield from running(server.bootstrap_servers, tmp_path)


class Storm:
    """Who is in the group, and what happens to it next."""

    def __init__(self, members: Members, topic: str) -> None:
        self._members = members
        self._topic = topic
        self._random = random.Random(SEED)
        self._frozen: list[tuple[float, Member]] = []
        self.alive: list[Member] = []
        self.happened: dict[str, int] = {}

    def blow(self) -> None:
        """One thing happens. The group grows to its limit, then swings between one member and many."""
        self._thaw()
        size = len(self.alive)
        if size < 3 or (size < MEMBERS_MAX and self._random.random() < 0.55):
            self._do("join", self._join)
        else:
            # A death keeps the others waiting for its session, so most go in peace.
            choices = [("leave", self._leave), ("kill", self._kill), ("freeze", self._freeze)]
            self._do(*self._random.choices(choices, (2, 1, 1))[0])

    def calm(self) -> None:
        """Everyone who stands still goes on."""
        self._thaw(everyone=True)

    def grow(self) -> None:
        while len(self.alive) < MEMBERS_MAX:
            self._do("join", self._join)

    def _do(self, name: str, action: Callable[[], None]) -> None:
        self.happened[name] = self.happened.get(name, 0) + 1
        action()

    def _join(self) -> None:
        client = CLIENTS[self.happened["join"] % 2]
        self.alive.append(self._members.start(client, self._topic, GROUP, session_timeout_ms=SESSION_MS))

    def _take(self) -> Member:
        return self.alive.pop(self._random.randrange(len(self.alive)))

    def _leave(self) -> None:
        # Not waited for: a rebalance may be under way.
        threading.Thread(target=self._take().leave).start()

    def _kill(self) -> None:
        self._take().kill()

    def _freeze(self) -> None:
        member = self._take()
        member.freeze()
        self._frozen.append((time.monotonic() + FREEZE_SECONDS, member))

    def _thaw(self, everyone: bool = False) -> None:
        for entry in tuple(self._frozen):
            until, member = entry
            if everyone or time.monotonic() >= until:
                member.thaw()
                self.alive.append(member)
                self._frozen.remove(entry)


@pytest.mark.req("A21", "K8", "K10", "K11", "L1", "L4", "C9")
def test_nothing_is_lost_and_nobody_shares_a_partition_in_a_storm_of_rebalances(
    server: ServerProcess, members: Members, topic: str
) -> None:
    create_topic(server.bootstrap_servers, topic, PARTITIONS)
    storm = Storm(members, topic)
    writing = threading.Thread(target=_write, args=(server.bootstrap_servers, topic))
    began = time.monotonic()
    writing.start()
    restarts: list[tuple[float, Callable[[], None]]] = [(0.4, server.restart), (0.7, lambda: _kill_and_start(server))]

    while (passed := time.monotonic() - began) < STORM_SECONDS:
        if restarts and passed > restarts[0][0] * STORM_SECONDS:
            restarts.pop(0)[1]()
        if passed > STORM_SECONDS / 3 and len(storm.alive) < MEMBERS_MAX and "full" not in storm.happened:
            storm.grow()
            storm.happened["full"] = 1
        storm.blow()
        time.sleep(0.5)
    storm.calm()
    writing.join()
    wanted = {partition: RECORDS // PARTITIONS + (partition < RECORDS % PARTITIONS) for partition in range(PARTITIONS)}
    wait_until(lambda: committed(server.bootstrap_servers, GROUP, topic, PARTITIONS) == wanted, SETTLE_SECONDS_MAX)

    for place in places_of(topic, PARTITIONS):
        came = set().union(*(member.offsets(place) for member in members.all))
        assert came == set(range(wanted[place.partition])), (
            f"{place} lost {wanted[place.partition] - len(came)} records"
        )
    history = read_history(server.bootstrap_servers, GROUP)
    _check_owners(history, topic)
    _check_commits(history)
    _check_what_members_saw(history, members)


def _write(bootstrap_servers: str, topic: str) -> None:
    """All records, evenly over the time of the storm and the partitions."""
    client = producer(bootstrap_servers, enable_idempotence=True, linger_ms=20)
    failures: list[object] = []
    began = time.monotonic()
    for number in range(RECORDS):
        client.produce(
            topic,
            b"%d" % number,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        if number % 500 == 0:
            client.poll(0)
            time.sleep(max(0.0, began + STORM_SECONDS * number / RECORDS - time.monotonic()))
    assert client.flush(SECONDS_MAX) == 0
    assert failures == []


def _kill_and_start(server: ServerProcess) -> None:
    server.kill()
    server.start()


def _check_owners(history: GroupHistory, topic: str) -> None:
    """Generations follow each other, and in each of them every partition has one owner; an empty group has none."""
    numbers = [generation.number for generation in history.generations]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > GENERATIONS_MIN, "this was no storm"
    for generation in history.generations:
        owners = generation.owners()
        assert set(owners.values()) <= {1}, f"generation {generation.number}: {owners}"
        assert not owners or set(owners) == set(places_of(topic, PARTITIONS)), (
            f"generation {generation.number}: {owners}"
        )


def _check_commits(history: GroupHistory) -> None:
    for place, offsets in history.commits.items():
        back = [(before, after) for before, after in pairwise(offsets) if after < before]
        assert not back, f"commits of {place} went back: {back}"


def _check_what_members_saw(history: GroupHistory, members: Members) -> None:
    """What a client says it was assigned is what the coordinator wrote for it."""
    written: dict[str, set[frozenset[Place]]] = {}
    for generation in history.generations:
        for member_id, share in generation.shares.items():
            written.setdefault(member_id, set()).add(share)
    for member in members.all:
        for event in member.events:
            if event.name == "partitions_assigned" and event.places:
                assert frozenset(event.places) in written[event.details["member"]]
