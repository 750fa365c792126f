"""Single produce requests at a steady rate: how long does each take?

Requests are due at fixed times. One that had to wait for the answer before it counts its wait too, so that a broker
that stalls is not measured less often for it; time that this process overslept is not the broker's.
"""

from __future__ import annotations

import socket
import statistics
import time

import msgspec

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.pipelined_produce import VERSION, answer_size, produce_request
from bench.generators.pipelined_produce import Load as ProduceLoad
from bench.generators.window import Window
from bench.topics import Topic, records_in
from harness.server import HOST
from tidelog.wire.frames import encode_request

TIMEOUT_SECONDS = 30.0


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    acks: int
    requests_per_second: int
    seconds: float
    warm_up_seconds: float = 2.0
    record_bytes: int = 1000


class Latencies(Measured, frozen=True):
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


def run(load: Load) -> Latencies:
    produce = ProduceLoad(
        load.port, load.broker_pid, load.topic, 1, 1, 0, record_bytes=load.record_bytes, acks=load.acks
    )
    before = records_in(load.port, load.topic)
    size = answer_size(produce)
    frame = encode_request(produce_request(produce, 0), VERSION, 1, "bench")
    with socket.create_connection((HOST, load.port), TIMEOUT_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        warm = paced(connection, frame, size, load.requests_per_second, load.warm_up_seconds)
        window = Window(load.broker_pid)
        window.open()
        taken = paced(connection, frame, size, load.requests_per_second, load.seconds)
        measured = window.close()
    added = records_in(load.port, load.topic) - before
    if added != len(warm) + len(taken) + 1:
        raise RuntimeError(f"{len(warm) + len(taken) + 1} records were acknowledged, {added} are in the log")
    cuts = statistics.quantiles(taken, n=1000, method="inclusive")
    return Latencies(
        **measured,
        p50_ms=cuts[499] * 1e3,
        p99_ms=cuts[989] * 1e3,
        p999_ms=cuts[998] * 1e3,
        max_ms=max(taken) * 1e3,
    )


def paced(connection: socket.socket, frame: bytes, answer_bytes: int, rate: int, seconds: float) -> list[float]:
    """Seconds that each request took."""
    taken: list[float] = []
    now = time.perf_counter
    began = now()
    answered = began
    for number in range(int(rate * seconds)):
        due = began + number / rate
        late = answered > due
        if not late:
            time.sleep(max(due - now(), 0))
        sent = due if late else now()
        connection.sendall(frame)
        left = answer_bytes
        while left:
            received = len(connection.recv(left))
            if not received:
                raise ConnectionError("the broker closed the connection")
            left -= received
        answered = now()
        taken.append(answered - sent)
    return taken


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
