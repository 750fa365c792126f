"""One produce request through the broker without sockets, part by part: `python -m bench.micro`.

The smallest of many runs is robust against whatever else the machine does, so that a change of one percent in the hot
path can be seen. Uses the same dispatcher, handler, leader and log as the broker, on a real file.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from rich.console import Console
from rich.table import Table

from tidelog.broker.call import Call
from tidelog.broker.connection import Connection
from tidelog.broker.dispatch import Dispatch, serve
from tidelog.broker.handlers.produce import ProduceHandler
from tidelog.broker.process import GC_YOUNG_OBJECTS
from tidelog.broker.repeated_produce import RepeatedProduce
from tidelog.broker.turn import Turn
from tidelog.env.clock import RealClock
from tidelog.env.files import RealFiles
from tidelog.log.config import LogConfig
from tidelog.log.open_files import OpenFiles
from tidelog.log.recovery import create_log
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.model.topic_settings import topic_defaults
from tidelog.replica.in_sync import InSync
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.batch import check_produced_batch
from tidelog.wire.compiler import reader
from tidelog.wire.crc import crc32c
from tidelog.wire.frames import encode_request, encode_response, parse_request_header
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tidelog.wire.records import Record, build_batch

NODE: Final = NodeId(1)
TOPIC: Final = TopicName("t")
TOPIC_ID: Final = UUID("5ab3d8e2-6f1c-4d0a-9a57-0c4f3f4d7e21")
REQUESTS_PER_TURN: Final = 100
CONNECTIONS: Final = 5
RUNS: Final = 300
MESSAGE_BYTES_MAX: Final = 1_048_588
# The whole request is also run with the turn's requests spread over this many partitions: a write for each.
SPREAD_PARTITIONS: Final = 100


class NoConnection:
    """Takes answers and sends them nowhere."""

    calls_waiting = 0
    closed = False
    peer_host = ""
    listener_name = ""
    run_reader: Any = None

    def answered(self, call: Call) -> None: ...

    def close(self, reason: str) -> None:
        raise AssertionError(reason)


class Broker:
    """The produce path as the broker assembles it, with a few partitions."""

    def __init__(self, folder: str, partitions: int) -> None:
        clock = RealClock()
        self.turn = Turn(lambda _: None, 256 << 20, clock.now_ms)
        open_files = OpenFiles(RealFiles())
        nothing: Any = None
        led = LedPartitions(NODE, nothing, nothing, self.turn.write, nothing)
        self.leaders = [
            PartitionLeader(
                topic=TOPIC,
                topic_id=TOPIC_ID,
                index=PartitionIndex(index),
                log=create_log(
                    TopicPartition(TOPIC, PartitionIndex(index)), f"{folder}/{index}", open_files, clock, LogConfig()
                ),
                config=topic_defaults({}),
                epoch=LeaderEpoch(0),
                in_sync=InSync(NODE, 30_000, {}),
                high_watermark=Offset(0),
                on_staged=self.turn.write,
                disk=nothing,
            )
            for index in range(partitions)
        ]
        led.by_name[TOPIC] = led.by_id[TOPIC_ID] = dict(enumerate(self.leaders))
        now_ms = clock.now_ms()
        handler = ProduceHandler(led, self.turn, nothing, lambda: now_ms, nothing)
        self.dispatch = Dispatch(
            [serve(ProduceRequest, handler)],
            self.turn.write_now,
            {ProduceRequest: RepeatedProduce(led, self.turn, nothing, 1 << 20)},
        )
        self.now_ms = now_ms


class NoPoller:
    """The benchmark itself says when a connection may read."""

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None: ...

    def remove_reader(self, fd: int) -> bool:
        return True

    def add_writer(self, fd: int, callback: Callable[[], object]) -> None: ...

    def remove_writer(self, fd: int) -> bool:
        return True


def through_connections_us(broker: Broker, frame: bytes) -> float:
    """The same with sockets: some connections with some requests each are read, settled and answered in a turn."""
    pairs = [socket.socketpair() for _ in range(CONNECTIONS)]
    connections = []
    for near, _ in pairs:
        near.setblocking(False)
        connections.append(Connection(near, "", "", NoPoller(), broker.turn, broker.dispatch, 1 << 20, lambda *_: None))
    requests = frame * (REQUESTS_PER_TURN // CONNECTIONS)
    best = float("inf")
    for _ in range(RUNS):
        for _, far in pairs:
            far.sendall(requests)
        began = time.perf_counter()
        for connection in connections:
            connection.on_readable()
        broker.turn.settle()
        best = min(best, time.perf_counter() - began)
        for _, far in pairs:
            far.recv(1 << 20)
    for pair in pairs:
        for end in pair:
            end.close()
    return best / REQUESTS_PER_TURN * 1e6


def _do_nothing() -> None: ...


def best_us(work: Callable[[], object]) -> float:
    """Microseconds per request of the quickest run."""
    best = float("inf")
    for _ in range(RUNS):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best / REQUESTS_PER_TURN * 1e6


def measure(folder: str, version: int, record_bytes: int, records_in_batch: int) -> list[tuple[str, float]]:
    broker = Broker(folder, SPREAD_PARTITIONS)
    now_ms = broker.now_ms
    value = bytes(index * 31 % 251 for index in range(record_bytes))
    batch = build_batch([Record(index, now_ms, None, value) for index in range(records_in_batch)])

    def frame(partition: int) -> bytes:
        data = TopicProduceData(TOPIC, TOPIC_ID, [PartitionProduceData(partition, batch)])
        return encode_request(ProduceRequest(None, 1, 30_000, [data]), version, 7, "bench")

    to_one = [memoryview(bytearray(frame(0)[4:])) for _ in range(REQUESTS_PER_TURN)]
    spread = [memoryview(bytearray(frame(index % SPREAD_PARTITIONS)[4:])) for index in range(REQUESTS_PER_TURN)]
    place = bytes(to_one[0]).index(batch[:20])
    connection: Any = NoConnection()

    def whole(frames: Sequence[memoryview]) -> None:
        handle = broker.dispatch.handle_frame
        for one in frames:
            one[place : place + 8] = b"\0\0\0\0\0\0\0\0"  # The broker wrote the offset there last time.
            handle(connection, one)
        broker.turn.settle()

    header = parse_request_header(to_one[0])
    read = reader(ProduceRequest, version)
    fresh = memoryview(batch)
    view = memoryview(bytearray(batch))
    checked = check_produced_batch(view, MESSAGE_BYTES_MAX)
    leader = broker.leaders[0]
    log = leader.log
    answer = PartitionProduceResponse(0, 0, 5, -1, 0)
    response = ProduceResponse([TopicProduceResponse(TOPIC, TOPIC_ID, [answer])])
    number = os.open(f"{folder}/plain", os.O_RDWR | os.O_CREAT)

    def stage_and_write() -> None:
        for _ in to_one:
            log.stage(checked, view, LeaderEpoch(0))
        log.write_staged()

    def lead() -> None:
        for _ in to_one:
            view[0:8] = b"\0\0\0\0\0\0\0\0"
            leader.stage(view, answer, now_ms)
        leader.write_staged()
        broker.turn.settle()

    loop_us = best_us(lambda: [idle() for idle in [_do_nothing] * REQUESTS_PER_TURN])

    def one_us(work: Callable[[], object]) -> float:
        return best_us(lambda: [work() for work in [work] * REQUESTS_PER_TURN]) - loop_us

    usual = [("whole request with sockets", through_connections_us(broker, frame(0)))] if records_in_batch == 1 else []
    return [
        *usual,
        ("whole request, all to one partition", best_us(lambda: whole(to_one))),
        (f"whole request, spread over {SPREAD_PARTITIONS} partitions", best_us(lambda: whole(spread))),
        ("· parse the header", one_us(lambda: parse_request_header(to_one[0]))),
        ("· decode the body", one_us(lambda: read(to_one[0], header.body_position))),
        ("· lead: check, stage, one gathered write", best_us(lead)),
        ("  · check the batch", one_us(lambda: check_produced_batch(fresh, MESSAGE_BYTES_MAX))),
        ("    · its CRC-32C alone", one_us(lambda: crc32c(view[21:]))),
        ("  · log: stage, one gathered write", best_us(stage_and_write)),
        ("    · the system call alone", best_us(lambda: os.pwritev(number, [view] * REQUESTS_PER_TURN, 0))),
        ("· encode the answer", one_us(lambda: encode_response(7, response, version))),
        ("a system call for each batch", one_us(lambda: os.pwritev(number, [view], 0))),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__)
    parser.add_argument("--version", type=int, default=13, help="of the produce request (default: %(default)s)")
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--records", type=int, default=1, help="in each batch")
    parser.add_argument("--columns", action="store_true", help="record batches and Arrow columns instead")
    arguments = parser.parse_args()
    if arguments.columns:
        from bench.columns import show

        show()
        return
    gc.freeze()
    gc.set_threshold(GC_YOUNG_OBJECTS, 20, 100)  # As in the broker's own process.
    folder = tempfile.mkdtemp(prefix="tidelog-micro-")
    try:
        rows = measure(folder, arguments.version, arguments.record_bytes, arguments.records)
    finally:
        shutil.rmtree(folder)
    table = Table(title=f"Produce v{arguments.version}, {arguments.records} × {arguments.record_bytes} bytes")
    table.add_column("")
    table.add_column("µs", justify="right", style="bold")
    for label, taken_us in rows:
        table.add_row(label, f"{taken_us:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
