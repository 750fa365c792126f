"""What idempotence and transactions cost the broker alone: `python -m bench.micro_transactions`.

Lots as Java's producer sends them, batches of 16 KB, each in a turn of its own, go through the connections of a whole
broker: read, handled, written and answered, but without a network, a client or an event loop that waits. The kinds take
turns lot by lot, and medians are told, so that a change of a few percent can be seen on a machine that does other
things. Files are written over and over at their front: new pages would cost more than all the rest, and vary.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import socket
import tempfile
import time
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.generators.transaction_lots import END_VERSION, PRODUCE_VERSION, Kind, Load, Producer
from bench.micro import NoPoller
from bench.topics import Topic
from harness.raw_client import RawClient, create_topic
from tidelog.broker.assembly import BrokerNode
from tidelog.broker.connection import Connection
from tidelog.broker.process import GC_YOUNG_OBJECTS
from tidelog.env import files
from tidelog.wire.frames import decode_response, encode_request
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.produce import ProduceResponse

HOST: Final = "127.0.0.1"
BATCHES: Final = 32
RECORDS: Final = 15
RECORD_BYTES: Final = 1_000
WARM_UP_LOTS: Final = 50
LOTS: Final = 400
# Positions in files, as far as they are written: 256 KiB, over and over.
REUSED: Final = (1 << 18) - 1
FRAME_BYTES_MAX: Final = 1 << 20
RECEIVE_BYTES: Final = 1 << 16


class WritesOver:
    """The module `os`, whose writes go to the front of files."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pwrite(self, descriptor: int, data: Any, position: int) -> int:
        return os.pwrite(descriptor, data, position & REUSED)

    def pwritev(self, descriptor: int, data: Sequence[Any], position: int) -> int:
        return os.pwritev(descriptor, data, position & REUSED)


class DirectProducer(Producer):
    """A producer of lots whose requests are handed to the broker one by one, and timed."""

    def __init__(self, load: Load, number: int, node: BrokerNode) -> None:
        super().__init__(load, number)
        self.socket.close()
        self.socket, near = socket.socketpair()
        near.setblocking(False)
        self._turn = node._turn
        requests = node._client_listeners[0]._requests
        self._connection = Connection(
            near, "", "", NoPoller(), self._turn, requests, FRAME_BYTES_MAX, lambda _, reason: print(reason)
        )

    def lot(self) -> list[float]:
        """Microseconds for each request of a lot."""
        taken = []
        for frame in self.next_frames():
            us, answer = self._through(frame)
            (topic,) = decode_response(ProduceResponse, PRODUCE_VERSION, answer)[1].responses
            assert topic.partition_responses[0].error_code == 0
            taken.append(us)
        if self._is_transactional:
            request = EndTxnRequest(self._name, self._producer_id, self._epoch, True)
            us, answer = self._through(encode_request(request, END_VERSION, 1, "bench"))
            ended = decode_response(EndTxnResponse, END_VERSION, answer)[1]
            assert ended.error_code == 0
            self._producer_id, self._epoch, self._sequence = ended.producer_id, ended.producer_epoch, 0
            taken.append(us)
        return taken

    def _through(self, frame: bytes | bytearray | memoryview) -> tuple[float, memoryview]:
        self.socket.sendall(frame)
        began = time.perf_counter_ns()
        self._connection.on_readable()
        self._turn.settle()
        us = (time.perf_counter_ns() - began) / 1e3
        (answer,) = self._splitter.feed(self.socket.recv(RECEIVE_BYTES))
        return us, answer


async def measure(folder: str, lots: int, wanted: Sequence[Kind] = tuple(Kind)) -> dict[Kind, list[list[float]]]:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    node = BrokerNode({"log.dirs": folder, "listeners": f"PLAINTEXT://{HOST}:0"}, loop)
    node.start()
    node.when_ready(ready.set)
    try:
        await ready.wait()
        producers = await loop.run_in_executor(None, _producers, node, wanted)
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_YOUNG_OBJECTS, 20, 100)
        taken: dict[Kind, list[list[float]]] = {kind: [] for kind in producers}
        kinds = list(producers)
        for number in track(range(WARM_UP_LOTS + lots), "lots", transient=True):
            for kind in kinds[number % len(kinds) :] + kinds[: number % len(kinds)]:
                lot = producers[kind].lot()
                if number >= WARM_UP_LOTS:
                    taken[kind].append(lot)
                # Timers of the broker have their turn.
                await asyncio.sleep(0)
        return taken
    finally:
        node.stop()


def _producers(node: BrokerNode, wanted: Sequence[Kind]) -> dict[Kind, DirectProducer]:
    """One of each kind that is wanted, on a partition of its own."""
    with RawClient(f"{HOST}:{node.port}") as client:
        topic = Topic("lots", create_topic(client, "lots", len(Kind)), len(Kind))
    return {
        kind: DirectProducer(
            Load(node.port, os.getpid(), topic, kind, 1, BATCHES, RECORDS, RECORD_BYTES, 0), number, node
        )
        for number, kind in enumerate(Kind)
        if kind in wanted
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lots", type=int, default=LOTS)
    parser.add_argument(
        "--only", type=Kind, choices=list(Kind), help="one kind, for a tool that counts the instructions of a process"
    )
    arguments = parser.parse_args()
    wanted = tuple(Kind) if arguments.only is None else (arguments.only,)
    setattr(files, "os", WritesOver())  # noqa: B010
    with tempfile.TemporaryDirectory() as folder:
        taken = asyncio.run(measure(folder, arguments.lots, wanted))
    table = Table(title=f"µs of the broker, medians of {arguments.lots} lots of {BATCHES} batches")
    for column in ("", "a lot", "of the one before", "first batch", "one of the others", "end"):
        table.add_column(column, justify="right" if column else "left")
    before: float | None = None
    for kind, lots in taken.items():
        turns = [median(each) for each in zip(*lots, strict=True)]
        whole = median(map(sum, lots))
        table.add_row(
            kind.value,
            f"{whole:,.0f}",
            f"{whole / before:.3f}×" if before else "",
            f"{turns[0]:.1f}",
            f"{median(turns[1:BATCHES]):.1f}",
            f"{turns[BATCHES]:.1f}" if len(turns) > BATCHES else "",
        )
        before = whole
    Console().print(table)


if __name__ == "__main__":
    main()
