"""One life of a group for each seed: how many members of which kind, what goes wrong, and how it must end.

Bad times come first, then calm; in the calm all that live must settle, share everything, and wait for nobody.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.group_clients import (
    REBALANCE_MS,
    SESSION_MS,
    ClassicClient,
    ConsumerClient,
    SimulatedClient,
)
from harness.group_invariants import Partition, Violation
from harness.group_world import CALM, START_MS, Faults, World
from tidelog.groups.settings import Settings

BAD_TIMES_MS = 40_000
# Sessions end, rebalances time out, and a coordinator that was down when it became calm comes back.
CALM_MS = 45_000
GROUP = "readers"


class Life(NamedTuple):
    """What a run came to, to compare it with another."""

    records: int
    commits: int
    reloads: int
    generation: int


def run(seed: int) -> Life:
    """Live through one seed. Raises Violation, with the seed in it, for what must not be."""
    try:
        return _Scenario(seed).live()
    except AssertionError as error:
        raise Violation(f"seed {seed}: {error}") from error


class _Scenario:
    def __init__(self, seed: int) -> None:
        kinds: tuple[type[SimulatedClient], ...] = (
            (ClassicClient,),
            (ConsumerClient,),
            (ClassicClient, ConsumerClient),
        )[seed % 3]
        settings = Settings(
            session_timeout_ms_min=1000,
            initial_rebalance_delay_ms=(0, 500, 3000)[seed % 7 % 3],
            new_member_join_timeout_ms=20_000,
            consumer_session_timeout_ms=SESSION_MS,
            consumer_heartbeat_interval_ms=2000,
            consumer_assignors=("uniform", "range") if seed % 2 else ("range", "uniform"),
        )
        self.world = World(seed, {"orders": 3, "prices": 2}, settings)
        random = self.random = self.world.random
        self.clients: list[SimulatedClient] = []
        for number in range(random.randint(1, 4)):
            topics = random.choice([["orders"], ["orders", "prices"], ["prices", "late"]])
            instance_id = f"instance-{number}" if random.random() < 0.3 else None
            self.clients.append(random.choice(kinds)(self.world, GROUP, f"client-{number}", topics, instance_id))
        self.faults = Faults(
            loss=random.choice([0.0, 0.02, 0.1]),
            latency_ms_max=random.choice([5, 100, 1500]),
            commit_ms_max=random.choice([0, 20, 500]),
            laziness=random.choice([0.0, 0.05]),
            crashes=random.random() < 0.4,
        )
        self.reloads = 0

    def live(self) -> Life:
        world = self.world
        for client in self.clients:
            world.after(self.random.randint(0, 3000), client.start)
        world.faults = self.faults
        self._trouble()
        world.run_until(START_MS + BAD_TIMES_MS)
        world.faults = CALM
        world.run_until(START_MS + BAD_TIMES_MS + CALM_MS)
        self._settled()
        invariants = world.host.invariants
        return Life(
            len(world.host.batches),
            sum(offset for offset, _ in invariants.committed_offsets.values()),
            self.reloads,
            max(invariants.generations.get(GROUP, 0), invariants.epochs.get(GROUP, 0)),
        )

    def _trouble(self) -> None:
        """Something happens now and then, until the bad times are over."""
        if self.world.now_ms >= START_MS + BAD_TIMES_MS - 1000:
            return
        random, host = self.random, self.world.host
        client = random.choice(self.clients)
        match random.choice(["crash", "leave", "hang", "start", "start", "topics", "coordinator"]):
            case "crash" if client.alive:
                client.crash()
            case "leave" if client.alive:
                client.leave()  # type: ignore[attr-defined]
            case "start" if not client.alive:
                self._restart(client)
            case "topics":
                self._change_topics()
            case "hang":
                client.hang(random.choice([1000, SESSION_MS + 1000, 2 * REBALANCE_MS]))
            case "coordinator" if self.faults.crashes and host.up:
                self.reloads += 1
                host.crash()
            case _:
                pass
        self.world.after(random.randint(200, 6000), self._trouble)

    def _restart(self, client: SimulatedClient) -> None:
        """The process comes back; a static member under the same instance id, the others as somebody new."""
        client.member_id = f"{client.name}-{client.step}" if isinstance(client, ConsumerClient) else ""
        client.start()

    def _change_topics(self) -> None:
        topics = dict(self.world.topics)
        match self.random.randint(0, 2):
            case 0:
                topics["orders"] = min(topics["orders"] + 1, 6)
            case 1:
                topics.setdefault("late", 2)
            case 2 if "prices" in topics:
                del topics["prices"]
        self.world.host.change_topics(topics)

    def _settled(self) -> None:
        """Everyone that lives is a member, knows what it has, and together they have everything once."""
        living = [client for client in self.clients if client.alive]
        owned: dict[Partition, str] = {}
        for client in living:
            if not client.stable:
                raise Violation(f"{client.name} has not settled")
            for partition in client.owned:
                if partition in owned:
                    raise Violation(f"{owned[partition]} and {client.name} both read {partition}")
                owned[partition] = client.name
        topics = self.world.topics
        expected = {
            (topic, number) for client in living for topic in client.topics for number in range(topics.get(topic, 0))
        }
        if set(owned) != expected:
            raise Violation(f"nobody reads {expected - set(owned)}, and {set(owned) - expected} should not be read")


assert CALM_MS > REBALANCE_MS + 2 * SESSION_MS, "in the calm there is time for all that can be waited for"
