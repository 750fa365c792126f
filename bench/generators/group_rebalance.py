"""A group as it comes to be, and as it takes in one more member: how long until every member knows its partitions?"""

from __future__ import annotations

import statistics
import time

import msgspec

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.members import REBALANCE_IN_PROGRESS, Member, members_of, share_out, stabilise
from bench.generators.window import Window
from bench.topics import Topic
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

LEAVE_VERSION = 3


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    group: str
    members: int
    rebalances: int


class Rebalanced(Measured, frozen=True):
    from_nothing_seconds: float
    # Of all rebalances that a member's coming caused.
    joined_median_seconds: float


def run(load: Load) -> Rebalanced:
    with members_of(load.port, [load.group], load.members + 1, load.topic.name) as ((*crew, late),):
        began = time.perf_counter()
        stabilise([crew], load.topic.name, load.topic.partitions)
        from_nothing = time.perf_counter() - began
        window = Window(load.broker_pid)
        window.open()
        taken = [rebalance(crew, late, load.topic) for _ in range(load.rebalances)]
        return Rebalanced(
            **window.close(), from_nothing_seconds=from_nothing, joined_median_seconds=statistics.median(taken)
        )


def rebalance(crew: list[Member], late: Member, topic: Topic) -> float:
    """One more member comes; the others learn it from a heartbeat and join again. Then it leaves, as quietly."""
    late.id = ""
    began = time.perf_counter()
    late.send_join()
    _learn(crew)
    for member in crew:
        member.send_join()
    share_out([[*crew, late]], topic.name, topic.partitions)
    taken = time.perf_counter() - began
    late.client.ask(LeaveGroupRequest(late.group, members=[MemberIdentity(late.id)]), LeaveGroupResponse, LEAVE_VERSION)
    _learn(crew)
    stabilise([crew], topic.name, topic.partitions)
    return taken


def _learn(crew: list[Member]) -> None:
    for member in crew:
        error = 0
        while error != REBALANCE_IN_PROGRESS:
            member.send_heartbeat()
            error = member.receive_heartbeat()
            if error not in (0, REBALANCE_IN_PROGRESS):
                raise RuntimeError(f"Heartbeat failed with error {error}")


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
