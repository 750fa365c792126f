"""Offset commits, one partition in each, as fast as the broker answers them: what a consumer costs that commits often.

At the end it reads the committed offsets back: every connection's group holds what was committed last.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.lanes import AnswersOfSize, Lane, Lanes
from bench.generators.members import wait_for_coordinators
from bench.generators.pipelined_produce import cycle
from bench.generators.window import Window
from bench.topics import Topic
from harness.raw_client import RawClient
from harness.server import HOST
from tidelog.wire.frames import encode_request
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse

COMMIT_VERSION = 7
FETCH_VERSION = 5
TIMEOUT_SECONDS = 30.0
COMMITTED = 1234


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    prefix: str
    connections: int
    in_flight: int
    seconds: float
    warm_up_seconds: float = 1.0


class Committed(Measured, frozen=True):
    commits: int

    @property
    def per_second(self) -> float:
        return self.commits / self.seconds

    @property
    def cpu_us_each(self) -> float:
        return self.broker_cpu_seconds / self.commits * 1e6


def commit(group: str, topic: Topic, partition: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic.name, partitions=[_at(partition)])])


def _at(partition: int) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(partition, COMMITTED, 0, "")


def run(load: Load) -> Committed:
    groups = [f"{load.prefix}-{number:04}" for number in range(load.connections)]
    wait_for_coordinators(load.port, groups)
    answer_bytes = answer_size(load, groups[0])
    lanes = Lanes([Lane(load.port, *_work(load, group, answer_bytes)) for group in groups], load.in_flight)
    window = Window(load.broker_pid)
    lanes.start()
    lanes.pump(load.warm_up_seconds)
    window.open()
    commits = lanes.pump(load.seconds)
    measured = window.close()
    lanes.drain()
    lanes.close()
    for group in groups:
        check_committed(load, group)
    return Committed(**measured, commits=commits)


def _work(load: Load, group: str, answer_bytes: int) -> tuple[Callable[[int], memoryview], AnswersOfSize]:
    frames = [
        encode_request(commit(group, load.topic, partition), COMMIT_VERSION, 1, "bench")
        for partition in range(load.topic.partitions)
    ]
    return cycle(frames, 0, load.in_flight), AnswersOfSize(answer_bytes)


def answer_size(load: Load, group: str) -> int:
    """Send one and look at its answer: no error, and all others will have its size."""
    with RawClient(f"{HOST}:{load.port}", TIMEOUT_SECONDS) as client:
        client.send(commit(group, load.topic, 0), COMMIT_VERSION)
        head = client.socket.recv(4, 0x02)  # MSG_PEEK
        (answer,) = client.receive(OffsetCommitResponse, COMMIT_VERSION).topics[0].partitions
        if answer.error_code:
            raise RuntimeError(f"OffsetCommit failed with error {answer.error_code}")
    return 4 + int.from_bytes(head, "big")


def check_committed(load: Load, group: str) -> None:
    wanted = list(range(load.topic.partitions))
    with RawClient(f"{HOST}:{load.port}", TIMEOUT_SECONDS) as client:
        request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(load.topic.name, wanted)])
        answer = client.ask(request, OffsetFetchResponse, FETCH_VERSION)
    offsets = {one.partition_index: one.committed_offset for topic in answer.topics for one in topic.partitions}
    if offsets != dict.fromkeys(wanted, COMMITTED):
        raise RuntimeError(f"group {group} has lost commits: {offsets}")


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
