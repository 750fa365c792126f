"""Consumer groups: how fast a large one becomes stable, and what commits and heartbeats cost."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from bench.generators import group_rebalance, heartbeats, offset_commits, run_generator
from bench.measure import Better, Curve, Metric
from bench.plan import Plan
from bench.process import on_one_core
from bench.scenarios import Note
from bench.servers import Contender
from bench.topics import Topic, topic_on

GROUP_MEMBERS: Final = 50
GROUP_PARTITIONS: Final = 500
REBALANCES: Final = 10
GROUPS: Final = (1, 20, 200)
MEMBERS_IN_GROUP: Final = 10
CONNECTIONS: Final = 6
IN_FLIGHT: Final = 20
COMMITTED_PARTITIONS: Final = 10
FLAT_WITHIN: Final = 1.2

BY_GROUPS: Final = Curve(
    "groups.heartbeats.by",
    f"one heartbeat, {MEMBERS_IN_GROUP} members in each group",
    "µs of broker CPU",
    "groups",
    GROUPS,
    FLAT_WITHIN,
)
# A group is used once: a server that is measured again must not find an old one.
_run_numbers: Final = itertools.count()


class Groups:
    name = "groups"
    title = f"{GROUP_MEMBERS} members over {GROUP_PARTITIONS} partitions; commits; heartbeats of 2,000 members"
    metrics: Sequence[Metric] = (
        Metric("groups.stable", f"{GROUP_MEMBERS} members from nothing to stable", "s", Better.LOWER, 1.0),
        Metric("groups.joined", "one more member, until all are stable again", "ms", Better.LOWER, 1.0),
        Metric("groups.commits", "offset commits, the broker on one core", "/s", Better.HIGHER, 2.0),
        Metric("groups.commits_free", "offset commits, the broker on all cores", "/s", Better.HIGHER),
        Metric("groups.commit_cpu", "broker CPU per commit", "µs", Better.LOWER),
        Metric("groups.heartbeats", "heartbeats, 2,000 members in 200 groups", "/s", Better.HIGHER, 2.0),
    )
    curves: Sequence[Curve] = (BY_GROUPS,)

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        number = next(_run_numbers)
        with topic_on(server, "groups", GROUP_PARTITIONS) as topic:
            note(f"{GROUP_MEMBERS} members")
            load = group_rebalance.Load(server.port, server.pid, topic, f"large-{number}", GROUP_MEMBERS, REBALANCES)
            rebalanced = run_generator("group_rebalance", load, group_rebalance.Rebalanced)
        figures = {
            "groups.stable": rebalanced.from_nothing_seconds,
            "groups.joined": rebalanced.joined_median_seconds * 1e3,
        }
        with topic_on(server, "groups-commits", COMMITTED_PARTITIONS) as topic:
            note("commits")
            committed = self._commit(server, topic, plan, f"commits-{number}")
            figures["groups.commits_free"] = committed.per_second
            figures["groups.commit_cpu"] = committed.cpu_us_each
            with on_one_core(server.pid):
                committed = self._commit(server, topic, plan, f"single-{number}")
            figures["groups.commits"] = committed.per_second
            for groups in (GROUPS[0], GROUPS[-1]) if plan.curve_ends_only else GROUPS:
                note(f"heartbeats of {groups} groups")
                beaten = self._beat(server, topic, plan, groups, f"beats-{number}")
                figures[BY_GROUPS.point(groups)] = beaten.cpu_us_each
                if groups == GROUPS[-1]:
                    figures["groups.heartbeats"] = beaten.per_second
        return figures

    def _commit(self, server: Contender, topic: Topic, plan: Plan, prefix: str) -> offset_commits.Committed:
        load = offset_commits.Load(
            server.port, server.pid, topic, prefix, CONNECTIONS, IN_FLIGHT, plan.pipelined_seconds
        )
        return run_generator("offset_commits", load, offset_commits.Committed)

    def _beat(self, server: Contender, topic: Topic, plan: Plan, groups: int, prefix: str) -> heartbeats.Beaten:
        load = heartbeats.Load(
            server.port,
            server.pid,
            topic,
            f"{prefix}-{groups}",
            groups,
            MEMBERS_IN_GROUP,
            CONNECTIONS,
            IN_FLIGHT,
            plan.curve_seconds,
        )
        return run_generator("heartbeats", load, heartbeats.Beaten)


GROUPS_SCENARIO = Groups()
