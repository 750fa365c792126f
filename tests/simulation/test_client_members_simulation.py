"""Our members of groups against our coordinator, both pure, through seeds of loss, delay, crashes and slow programs.

In calm times no partition has two owners, not for a moment; after bad times all that live share everything once.
"""

from __future__ import annotations

import pytest

from harness.group_machines import MachineClient
from harness.group_world import CALM, START_MS, Faults, World
from tidelog.client.core.classic_member import ClassicMember
from tidelog.groups.settings import Settings
from tidelog.model.ids import TopicPartition

BAD_TIMES_MS = 40_000
CALM_MS = 60_000
WATCH_MS = 50
CALM_SEEDS = 3
BAD_SEEDS = 5
KINDS = [
    ("classic", ("range",)),
    ("classic", ("cooperative-sticky",)),
    ("classic", ("sticky", "roundrobin")),
    ("consumer", ()),
]


class Story:
    """One seed."""

    def __init__(self, seed: int, protocol: str, assignors: tuple[str, ...]) -> None:
        settings = Settings(
            session_timeout_ms_min=1000,
            initial_rebalance_delay_ms=(0, 500)[seed % 2],
            consumer_session_timeout_ms=6_000,
            consumer_heartbeat_interval_ms=2_000,
        )
        self.world = World(seed, {"orders": 4, "prices": 3}, settings)
        random = self.random = self.world.random
        self.clients = [
            MachineClient(
                self.world,
                f"client-{number}",
                random.choice([["orders"], ["orders", "prices"], ["prices"]]),
                protocol,
                assignors or ("range",),
                f"instance-{number}" if random.random() < 0.25 else None,
            )
            for number in range(random.randint(2, 4))
        ]

    def begin(self) -> None:
        for client in self.clients:
            self.world.after(self.random.randint(0, 3000), client.start)

    def check_single_owners(self) -> None:
        owners: dict[TopicPartition, str] = {}
        for client in self.clients:
            for place in client.owned:
                assert place not in owners, f"{place} is owned by {owners[place]} and {client.name}"
                owners[place] = client.name

    def check_settled(self) -> None:
        living = [client for client in self.clients if client.alive]
        self.check_single_owners()
        assert all(client.failure is None for client in self.clients), [client.failure for client in self.clients]
        assert all(client.stable for client in living), [client.name for client in living if not client.stable]
        wanted = {topic for client in living for topic in client.topics}
        every = {(topic, index) for topic in wanted for index in range(self.world.topics.get(topic, 0))}
        assert {tuple(place) for client in living for place in client.owned} == every


def trouble(story: Story, faults: Faults) -> None:
    if story.world.now_ms >= START_MS + BAD_TIMES_MS - 1000:
        return
    random, client = story.random, story.random.choice(story.clients)
    match random.choice(["crash", "leave", "start", "start", "topics", "coordinator"]):
        case "crash" if client.alive:
            client.crash()
        case "leave" if client.alive:
            client.leave()
        case "start" if not client.alive:
            client.start()
        case "topics":
            story.world.host.change_topics({**story.world.topics, "orders": random.randint(4, 7)})
        case "coordinator" if faults.crashes and story.world.host.up:
            story.world.host.crash()
        case _:
            pass
    story.world.after(random.randint(200, 6000), trouble, story, faults)


@pytest.mark.parametrize(("protocol", "assignors"), KINDS)
def test_in_calm_times_no_partition_ever_has_two_owners(protocol: str, assignors: tuple[str, ...]) -> None:
    for seed in range(CALM_SEEDS):
        story = Story(seed, protocol, assignors)
        story.begin()

        def watch(story: Story = story) -> None:
            story.check_single_owners()
            story.world.after(WATCH_MS, watch)

        def come_and_go(story: Story = story) -> None:
            client = story.random.choice(story.clients)
            if client.alive:
                client.leave()
            else:
                client.start()
            if story.world.now_ms < START_MS + BAD_TIMES_MS:
                story.world.after(story.random.randint(1000, 9000), come_and_go)

        watch()
        story.world.after(5_000, come_and_go)
        story.world.run_until(START_MS + BAD_TIMES_MS + CALM_MS)
        story.check_settled()


@pytest.mark.parametrize(("protocol", "assignors"), KINDS)
def test_after_bad_times_the_living_share_everything_once(protocol: str, assignors: tuple[str, ...]) -> None:
    for seed in range(BAD_SEEDS):
        story = Story(seed, protocol, assignors)
        random = story.random
        faults = Faults(
            loss=random.choice([0.0, 0.02, 0.1]),
            latency_ms_max=random.choice([5, 100, 1500]),
            commit_ms_max=random.choice([0, 20, 500]),
            laziness=random.choice([0.0, 0.02]),
            crashes=random.random() < 0.4,
        )
        story.begin()
        story.world.faults = faults
        trouble(story, faults)
        story.world.run_until(START_MS + BAD_TIMES_MS)
        story.world.faults = CALM
        story.world.run_until(START_MS + BAD_TIMES_MS + CALM_MS)
        try:
            story.check_settled()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None


def test_a_member_that_reads_on_while_it_joins_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch must be able to fail: this member does not give up what it was told to."""
    monkeypatch.setattr(ClassicMember, "_prepare_join", lambda self, now: self._join())
    with pytest.raises(AssertionError, match="is owned by"):
        test_in_calm_times_no_partition_ever_has_two_owners("classic", ("range",))
