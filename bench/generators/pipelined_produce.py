"""Produce requests as fast as the broker answers them: one batch in each, encoded before, many in flight.

At the end it counts the records in the log: every answer that was counted stands for a batch that is really there.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.lanes import AnswersOfSize, Lane, Lanes
from bench.generators.window import Window
from bench.topics import Topic, records_in
from harness.raw_client import RawClient
from harness.server import HOST
from tidelog.wire.frames import encode_request
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.records import Record, build_batch

VERSION = 13
TIMEOUT_MS = 30_000


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    connections: int
    in_flight: int
    seconds: float
    warm_up_seconds: float = 1.0
    record_bytes: int = 100
    records_in_batch: int = 1
    acks: int = 1
    partitions_used: int = 1


class Produced(Measured, frozen=True):
    requests: int

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.seconds

    @property
    def cpu_us_per_request(self) -> float:
        return self.broker_cpu_seconds / self.requests * 1e6


def produce_request(load: Load, partition: int) -> ProduceRequest:
    now_ms = int(time.time() * 1000)
    value = bytes(index * 31 % 251 for index in range(load.record_bytes))
    batch = build_batch([Record(index, now_ms, None, value) for index in range(load.records_in_batch)])
    data = TopicProduceData(load.topic.name, load.topic.id, [PartitionProduceData(partition, batch)])
    return ProduceRequest(None, load.acks, TIMEOUT_MS, [data])


def run(load: Load) -> Produced:
    before = records_in(load.port, load.topic)
    answer_bytes = answer_size(load)
    frames = [
        encode_request(produce_request(load, partition), VERSION, 1, "bench")
        for partition in range(load.partitions_used)
    ]
    lanes = Lanes(
        [
            Lane(load.port, cycle(frames, number * load.in_flight, load.in_flight), AnswersOfSize(answer_bytes))
            for number in range(load.connections)
        ],
        load.in_flight,
    )
    window = Window(load.broker_pid)
    lanes.start()
    answered = lanes.pump(load.warm_up_seconds)
    window.open()
    requests = lanes.pump(load.seconds)
    measured = window.close()
    answered += requests + lanes.drain()
    lanes.close()
    added = records_in(load.port, load.topic) - before
    expected = (answered + 1) * load.records_in_batch
    if added != expected:
        raise RuntimeError(f"{expected} records were acknowledged, {added} are in the log")
    return Produced(**measured, requests=requests)


def answer_size(load: Load) -> int:
    """Send one request and look at its answer: no error, and all others will have its size."""
    with RawClient(f"{HOST}:{load.port}", TIMEOUT_MS / 1000) as client:
        client.send(produce_request(load, 0), VERSION)
        head = client.socket.recv(4, 0x02)  # MSG_PEEK
        (answer,) = client.receive(ProduceResponse, VERSION).responses[0].partition_responses
        if answer.error_code:
            raise RuntimeError(f"produce failed with error {answer.error_code}: {answer.error_message}")
    return 4 + int.from_bytes(head, "big")


def cycle(frames: list[bytes], start: int, in_flight: int) -> Callable[[int], memoryview]:
    """The next requests of a connection: round and round over the partitions, `in_flight` at most at a time."""
    size = len(frames[0])
    assert all(len(frame) == size for frame in frames)
    around = len(frames)
    ring = memoryview(b"".join(frames) * (in_flight // around + 2))
    cursor = start % around

    def following(count: int) -> memoryview:
        nonlocal cursor
        begun = cursor
        cursor = (cursor + count) % around
        return ring[begun * size : (begun + count) * size]

    return following


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
