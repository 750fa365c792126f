"""Producers that write lots of records, one lot after the other: plainly, idempotently, or each lot as a transaction.

A lot is a few batches that are sent together and waited for together; a transaction then ends before the next one
begins (the second protocol: partitions are added by the broker, every end brings a new epoch). All that is compared is
sent in the same way by the same code. At the end a reader of committed records must find as many as were written.
"""

from __future__ import annotations

import itertools
import mmap
import selectors
import socket
import time
from enum import Enum
from struct import Struct
from typing import Final

import msgspec

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.window import Window
from bench.topics import Topic
from harness.raw_client import RawClient
from harness.raw_transactions import RawTransactions, last_stable_offset
from harness.server import HOST
from harness.waiting import wait_until
from tidelog.wire.crc import crc32c
from tidelog.wire.frames import FrameSplitter, decode_response, encode_request
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.records import Record, build_batch

PRODUCE_VERSION: Final = 12
END_VERSION: Final = 5
RECEIVE_BYTES: Final = 1 << 16
TIMEOUT_SECONDS: Final = 30.0
# Where a batch keeps its checksum, what it covers, and who sent it.
CRC_POSITION: Final = 17
CHECKED_POSITION: Final = 21
PRODUCER_POSITION: Final = 43
_CRC: Final = Struct(">I")
# Producer id, epoch, first sequence.
_PRODUCER: Final = Struct(">qhi")
SEQUENCES: Final = 2**31
CONCURRENT_TRANSACTIONS: Final = 51


class Kind(Enum):
    PLAIN = "plain"
    IDEMPOTENT = "idempotent"
    TRANSACTIONS = "transactions"


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    kind: Kind
    producers: int
    batches_in_lot: int
    records_in_batch: int
    record_bytes: int
    seconds: float
    warm_up_seconds: float = 1.0


class Lots(Measured, frozen=True):
    lots: int
    records: int
    end_p50_ms: float
    end_p99_ms: float

    @property
    def lots_per_second(self) -> float:
        return self.lots / self.seconds

    @property
    def us_per_record(self) -> float:
        return self.seconds / self.records * 1e6


class Producer:
    """One connection, with a lot, or the end of one, under way from `start` to `stop`."""

    def __init__(self, load: Load, number: int) -> None:
        self._load = load
        self._partition = number % load.topic.partitions
        self._name = f"{load.topic.name}-{number}"
        self._is_transactional = load.kind is Kind.TRANSACTIONS
        self._producer_id, self._epoch, self._sequence = -1, -1, -1
        self._introduce()
        self._frames = [self._frame() for _ in range(load.batches_in_lot)]
        self.socket = socket.create_connection((HOST, load.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._splitter = FrameSplitter()
        self._missing = 0
        self._sent: list[memoryview] = []
        # The first batch of the lot that is to be sent again, when one is.
        self._refused: int | None = None
        self._end_began = 0.0
        self._goes_on = False
        # Whether a lot, or the end of one, is under way.
        self.is_busy = False
        self.lots = 0
        self.ends_ms: list[float] = []

    def _introduce(self) -> None:
        with RawClient(f"{HOST}:{self._load.port}", TIMEOUT_SECONDS) as client:
            if self._is_transactional:
                made = RawTransactions(client, self._name)
                wait_until(lambda: made.init().error_code == 0)
                self._producer_id, self._epoch, self._sequence = made.producer_id, made.epoch, 0
            elif self._load.kind is Kind.IDEMPOTENT:
                answer = client.ask(InitProducerIdRequest(None), InitProducerIdResponse, 4)
                self._producer_id, self._epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0

    def _frame(self) -> tuple[memoryview, int]:
        """A produce request, and where its batch is.

        Each has pages of its own: how memory happens to lie, and who came first, makes a difference of several percent.
        """
        load = self._load
        value = bytes(index * 31 % 251 for index in range(load.record_bytes))
        batch = build_batch(
            [Record(index, int(time.time() * 1000), None, value) for index in range(load.records_in_batch)],
            is_transactional=self._is_transactional,
        )
        data = [TopicProduceData(load.topic.name, partition_data=[PartitionProduceData(self._partition, batch)])]
        request = ProduceRequest(self._name if self._is_transactional else None, -1, 30_000, data)
        frame = encode_request(request, PRODUCE_VERSION, 1, "bench")
        pages = memoryview(mmap.mmap(-1, len(frame)))
        pages[:] = frame
        return pages, frame.index(batch)

    def next_frames(self) -> list[memoryview]:
        """The requests of the next lot, with who sends them and what follows its last one."""
        out = []
        for view, position in self._frames:
            _PRODUCER.pack_into(view, position + PRODUCER_POSITION, self._producer_id, self._epoch, self._sequence)
            end = position + 12 + int.from_bytes(view[position + 8 : position + 12], "big")
            _CRC.pack_into(view, position + CRC_POSITION, crc32c(bytes(view[position + CHECKED_POSITION : end])))
            if self._sequence >= 0:
                self._sequence = (self._sequence + self._load.records_in_batch) % SEQUENCES
            out.append(view)
        return out

    def start(self) -> None:
        """Write one lot behind the other, until `stop`."""
        self._goes_on = True
        self._send_lot()

    def stop(self) -> None:
        """Begin no other lot."""
        self._goes_on = False

    def _lot_is_done(self) -> None:
        self.lots += 1
        if self._goes_on:
            self._send_lot()
        else:
            self.is_busy = False

    def _send_lot(self) -> None:
        self.is_busy = True
        out = self.next_frames()
        self._missing = len(out)
        self._sent = out
        self.socket.sendall(b"".join(out))

    def _send_again(self) -> None:
        """Apache Kafka refuses a transaction while the end of the one before is under way; clients then send again."""
        again = self._sent[self._refused :]
        self._missing, self._refused = len(again), None
        self._sent = again
        self.socket.sendall(b"".join(again))

    def receive(self) -> None:
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionError("the broker closed the connection")
        for frame in self._splitter.feed(data):
            if self._missing:
                self._written(frame)
            else:
                self._ended(frame)

    def _written(self, frame: memoryview) -> None:
        answer = decode_response(ProduceResponse, PRODUCE_VERSION, frame)[1].responses[0].partition_responses[0]
        if answer.error_code == CONCURRENT_TRANSACTIONS and self._refused is None:
            self._refused = len(self._sent) - self._missing
        if answer.error_code and self._refused is None:
            raise RuntimeError(f"Produce failed with error {answer.error_code}: {answer.error_message}")
        self._missing -= 1
        if self._missing:
            return
        if self._refused is not None:
            self._send_again()
            return
        if not self._is_transactional:
            self._lot_is_done()
            return
        self._end_began = time.perf_counter()
        self._send_end()

    def _send_end(self) -> None:
        request = EndTxnRequest(self._name, self._producer_id, self._epoch, True)
        self.socket.sendall(encode_request(request, END_VERSION, 1, "bench"))

    def _ended(self, frame: memoryview) -> None:
        answer = decode_response(EndTxnResponse, END_VERSION, frame)[1]
        if answer.error_code == CONCURRENT_TRANSACTIONS:
            self._send_end()
            return
        if answer.error_code:
            raise RuntimeError(f"EndTxn failed with error {answer.error_code}")
        self.ends_ms.append((time.perf_counter() - self._end_began) * 1e3)
        self._producer_id, self._epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0
        self._lot_is_done()


def run(load: Load) -> Lots:
    producers = [Producer(load, number) for number in range(load.producers)]
    selector = selectors.DefaultSelector()
    for producer in producers:
        selector.register(producer.socket, selectors.EVENT_READ, producer)
        producer.start()
    _pump(selector, load.warm_up_seconds)
    for producer in producers:
        producer.ends_ms.clear()
    before = sum(producer.lots for producer in producers)
    window = Window(load.broker_pid)
    window.open()
    _pump(selector, load.seconds)
    measured = window.close()
    lots = sum(producer.lots for producer in producers) - before
    ends_ms = sorted(itertools.chain.from_iterable(producer.ends_ms for producer in producers)) or [0.0]
    _check(load, sum(producer.lots for producer in producers))
    return Lots(
        **measured,
        lots=lots,
        records=lots * load.batches_in_lot * load.records_in_batch,
        end_p50_ms=ends_ms[len(ends_ms) // 2],
        end_p99_ms=ends_ms[len(ends_ms) * 99 // 100],
    )


def _pump(selector: selectors.BaseSelector, seconds: float) -> None:
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        for key, _ in selector.select(left):
            key.data.receive()


def _check(load: Load, lots: int) -> None:
    """At least what was acknowledged is there for readers of committed records."""
    with RawClient(f"{HOST}:{load.port}", TIMEOUT_SECONDS) as client:
        stable = sum(last_stable_offset(client, load.topic.name, index) for index in range(load.topic.partitions))
    expected = lots * load.batches_in_lot * load.records_in_batch
    if stable < expected:
        raise RuntimeError(f"{expected} records were acknowledged, but only {stable} can be read")


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
