"""Incremental fetches (KIP-227) of sessions over many partitions, of which one has something to read.

What this costs a broker should depend on the one, not on the many.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

import msgspec

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.lanes import AnswersByFrame, Lane, Lanes
from bench.generators.pipelined_produce import Load as ProduceLoad
from bench.generators.pipelined_produce import produce_request
from bench.generators.window import Window
from bench.topics import Topic, end_offsets
from harness.raw_client import RawClient
from harness.server import HOST
from tidelog.wire.frames import encode_request
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.produce import ProduceResponse

VERSION = 17
PRODUCE_VERSION = 13
BUSY_PARTITION = 0
TIMEOUT_SECONDS = 30.0
# Stands in an encoded request where the session's epoch goes; unlikely to occur by chance.
EPOCH_MARK = 0x5EED_0E11
_EPOCH = Struct(">i")


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    connections: int
    in_flight: int
    seconds: float
    warm_up_seconds: float = 1.0


class Fetched(Measured, frozen=True):
    requests: int

    @property
    def cpu_us_per_request(self) -> float:
        return self.broker_cpu_seconds / self.requests * 1e6


def run(load: Load) -> Fetched:
    with RawClient(f"{HOST}:{load.port}", TIMEOUT_SECONDS) as client:
        fill(client, load)
        ends = end_offsets(client, load.topic)
        assert ends is not None
        sessions = [open_session(client, load.topic, ends) for _ in range(load.connections)]
        check_incremental(client, load.topic, open_session(client, load.topic, ends))
    lanes = Lanes([Lane(load.port, epochs(load, session), AnswersByFrame()) for session in sessions], load.in_flight)
    window = Window(load.broker_pid)
    lanes.start()
    lanes.pump(load.warm_up_seconds)
    window.open()
    requests = lanes.pump(load.seconds)
    measured = window.close()
    lanes.drain()
    lanes.close()
    return Fetched(**measured, requests=requests)


def fill(client: RawClient, load: Load) -> None:
    """One record in every partition."""
    produce = ProduceLoad(load.port, load.broker_pid, load.topic, 1, 1, 0)
    for partition in range(load.topic.partitions):
        answer = client.ask(produce_request(produce, partition), ProduceResponse, PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == 0


def fetch_request(topic: Topic, offsets: dict[int, int], session_id: int, epoch: int) -> FetchRequest:
    positions = [
        FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        for partition, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic.name, topic.id, positions)],
    )


def open_session(client: RawClient, topic: Topic, ends: list[int]) -> int:
    """A session that stands at the end of every partition."""
    answer = client.ask(fetch_request(topic, dict(enumerate(ends)), 0, 0), FetchResponse, VERSION)
    assert answer.error_code == 0 and answer.session_id, f"no session: error {answer.error_code}"
    return answer.session_id


def check_incremental(client: RawClient, topic: Topic, session_id: int) -> None:
    """What the load asks for is one record of one partition."""
    answer = client.ask(fetch_request(topic, {BUSY_PARTITION: 0}, session_id, 1), FetchResponse, VERSION)
    assert answer.error_code == 0
    (partition,) = answer.responses[0].partitions
    assert partition.partition_index == BUSY_PARTITION and partition.records


def epochs(load: Load, session_id: int) -> Callable[[int], memoryview]:
    """The next requests of a session: the same, but for the epoch, which counts them."""
    request = fetch_request(load.topic, {BUSY_PARTITION: 0}, session_id, EPOCH_MARK)
    frame = encode_request(request, VERSION, 1, "bench")
    place = frame.index(_EPOCH.pack(EPOCH_MARK))
    size = len(frame)
    several = bytearray(frame * load.in_flight)
    epoch = 0

    def following(count: int) -> memoryview:
        nonlocal epoch
        for position in range(place, count * size, size):
            epoch += 1
            _EPOCH.pack_into(several, position, epoch)
        return memoryview(bytes(several[: count * size]))

    return following


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
