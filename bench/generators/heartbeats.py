"""Heartbeats of many members in many groups, as fast as the broker answers them.

At the end every member sends one more and looks at the answer: nobody was thrown out meanwhile.
"""

from __future__ import annotations

import msgspec

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.lanes import AnswersOfSize, Lane, Lanes
from bench.generators.members import HEARTBEAT_VERSION, members_of, stabilise
from bench.generators.pipelined_produce import cycle
from bench.generators.window import Window
from bench.topics import Topic
from tidelog.wire.frames import encode_request

# Length, correlation id, throttle time, error code: v3 has no tags.
ANSWER_BYTES = 4 + 4 + 4 + 2


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    prefix: str
    groups: int
    members_in_group: int
    connections: int
    in_flight: int
    seconds: float
    warm_up_seconds: float = 1.0


class Beaten(Measured, frozen=True):
    heartbeats: int

    @property
    def per_second(self) -> float:
        return self.heartbeats / self.seconds

    @property
    def cpu_us_each(self) -> float:
        return self.broker_cpu_seconds / self.heartbeats * 1e6


def run(load: Load) -> Beaten:
    # Names and ids of one length, so that all frames have one size.
    groups = [f"{load.prefix}-{number:04}" for number in range(load.groups)]
    with members_of(load.port, groups, load.members_in_group, load.topic.name) as crews:
        stabilise(crews, load.topic.name, load.topic.partitions)
        # Neighbours belong to different groups, as they would when thousands of clients beat for themselves.
        members = [member for row in zip(*crews, strict=True) for member in row]
        frames = [encode_request(member.heartbeat(), HEARTBEAT_VERSION, 1, "bench") for member in members]
        lanes = Lanes(
            [
                Lane(load.port, cycle(frames, number * load.in_flight, load.in_flight), AnswersOfSize(ANSWER_BYTES))
                for number in range(load.connections)
            ],
            load.in_flight,
        )
        window = Window(load.broker_pid)
        lanes.start()
        lanes.pump(load.warm_up_seconds)
        window.open()
        heartbeats = lanes.pump(load.seconds)
        measured = window.close()
        lanes.drain()
        lanes.close()
        for member in members:
            member.send_heartbeat()
            if error := member.receive_heartbeat():
                raise RuntimeError(f"member {member.id} of {member.group} was answered with error {error}")
    return Beaten(**measured, heartbeats=heartbeats)


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
